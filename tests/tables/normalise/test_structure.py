"""Normalisers of the log's structured messages: hand-made spans against rows written out by hand."""

from __future__ import annotations

import polars as pl
import pytest

from nccl_insight.tables.normalise.codes import plugin_name, plugin_not_found
from nccl_insight.tables.normalise.model import topo_paths, tuning_header, tuning_row
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


def test_paths_of_a_node() -> None:
    frame = pl.DataFrame(
        {
            "node": ["GPU", "NET"],
            "node_id": ["0-1a000", "3"],
            "paths": ["GPU/0-1a000 (0/5000.0/LOC) NVS/0-0 (1/360.0/NVL)", "GPU/1A000 (4/12.000000/PIX) CPU/0 (2/12"],
        }
    )
    assert topo_paths(frame).select("src", "dst", "hops", "bw_gbps", "path_type").rows() == [
        ("GPU/0-1a000", "GPU/0-1a000", 0, 5000.0, "LOC"),
        ("GPU/0-1a000", "NVS/0-0", 1, 360.0, "NVL"),
        ("NET/3", "GPU/1A000", 4, 12.0, "PIX"),
    ]


def test_tuning_table() -> None:
    head = tuning_header(pl.DataFrame({"model_columns": ["    Tree/    LL |    Ring/Simple |"]}))
    assert head["labels"].to_list() == [["Tree/LL", "Ring/Simple"]]
    assert head["n_cells"].to_list() == [2]
    cells = tuning_row(
        pl.DataFrame({"table_function": ["AllReduce"], "model_cells": ["     8.4/   8.0 |    14.0/   inf |"]})
    )
    assert cells["latency_us"].to_list() == [[8.4, 14.0]]
    assert cells["model_bw_gbps"].to_list() == [[8.0, float("inf")]]
    threads = tuning_row(pl.DataFrame({"model_threads": ["            512 |            640 |"]}))
    assert threads["max_threads"].to_list() == [[512, 640]]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        ("libnccl-net.so: cannot open shared object file: No such file or directory", "not_found"),
        ("libcudart.so.12: cannot open shared object file: No such file or directory", "failed"),
        ("/opt/net/libnccl-net.so: undefined symbol: fi_getinfo", "failed"),
    ],
)
def test_a_plugin_that_is_there_and_cannot_be_linked_failed(error: str, outcome: str) -> None:
    frame = pl.DataFrame({"library": ["libnccl-net.so"], "dl_error": [error], "outcome": ["not_found"]})
    assert plugin_name(frame).select("name", "outcome", "detail").rows() == [("libnccl-net.so", outcome, error)]


@pytest.mark.parametrize("tail", [".", ". Using internal network plugin.", ""])
def test_what_was_looked_for_without_the_sentence(tail: str) -> None:
    frame = pl.DataFrame(
        {"plugin_kind": ["NET"], "plugin_list": [f" libnccl-net-x.so{tail}"], "outcome": ["not_found"]}
    )
    assert plugin_not_found(frame).select("kind", "name").rows() == [("net", "libnccl-net-x.so")]


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
