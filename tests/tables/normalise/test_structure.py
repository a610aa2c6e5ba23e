"""Normalisers of the log's structured messages: hand-made spans against rows written out by hand."""

from __future__ import annotations

import polars as pl

from nccl_insight.tables.normalise.structure import nic_list_ib, ring_ranks, trees_children_first


def test_merged_devices_keep_the_index_that_connections_use() -> None:
    span = "[0]={[0] mlx5_2:1/RoCE, [1] mlx5_3:1/RoCE} [1]mlx5_bond_0:2/IB [RO]"
    rows = nic_list_ib(pl.DataFrame({"ib_nics": [span]}))
    assert rows.select("index", "physical_index", "name", "port", "link_layer").rows() == [
        (0, 0, "mlx5_2", 1, "RoCE"),
        (0, 1, "mlx5_3", 1, "RoCE"),
        (1, None, "mlx5_bond_0", 2, "IB"),
    ]


def test_rails_planes_sharp_and_a_cut_list() -> None:
    span = "[0]mlx5_0:1:2:0/IB [1]mlx5_1:1/IB/SHARP [2]mlx5_2:1/I"
    rows = nic_list_ib(pl.DataFrame({"ib_nics": [span]}))
    assert rows.select("index", "name", "rail", "plane", "link_layer").rows() == [
        (0, "mlx5_0", 2, 0, "IB"),
        (1, "mlx5_1", None, None, "IB"),
        (2, "mlx5_2", None, None, "other"),
    ]


def test_a_rank_that_may_be_cut_is_left_out() -> None:
    frame = pl.DataFrame(
        {"channel": [0, 1, 2], "ring_ranks": [[0, 1, 2], [0, 1, 27], [0, 1]], "ring_cut": [" ...", "...", None]},
        schema_overrides={"ring_ranks": pl.List(pl.Int64)},
    )
    rows = ring_ranks(frame)
    assert rows.filter(channel=0).select("position", "rank", "truncated").rows() == [
        (0, 0, True),
        (1, 1, True),
        (2, 2, True),
    ]
    assert rows.filter(channel=1)["rank"].to_list() == [0, 1]
    assert rows.filter(channel=2)["truncated"].to_list() == [False, False]


def test_the_last_tree_of_a_long_line_is_doubtful() -> None:
    numbers = [0, 4, -1, -1, 3, 2, 1, -1, -1, -1, 3, 7]
    short = pl.DataFrame({"trees_children_first": [numbers], "_body": ["Trees ..."]})
    assert trees_children_first(short).select("channel", "rank", "parent_rank", "child_ranks").rows() == [
        (0, 3, 2, [4]),
        (1, 3, 7, []),
    ]
    cut = short.with_columns(_body=pl.lit("x" * 1020))
    assert trees_children_first(cut)["channel"].to_list() == [0]
