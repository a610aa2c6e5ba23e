"""Where rings cross nodes, and how the traffic between nodes spreads over NICs and GPUs."""

from __future__ import annotations

import polars as pl
import pytest

from nccl_insight.facts.fabric import traffic
from tests.facts.tables_by_hand import _links, two_hosts


def _rings(order: list[int]) -> pl.DataFrame:
    n = len(order)
    return pl.DataFrame(
        {
            "comm_id": ["c"] * n, "channel": [0] * n, "position": list(range(n)), "rank": order,
            "truncated": [False] * n, "input_id": [0] * n, "line": [9] * n,
        }
    )  # fmt: skip


@pytest.mark.parametrize(("order", "crossings"), [([0, 1, 2, 3], 2), ([0, 2, 1, 3], 4), ([1, 2, 3, 0], 2)])
def test_ring_crossings_close_the_ring(order: list[int], crossings: int) -> None:
    run = two_hosts(rings=_rings(order))
    assert traffic.ring_crossings(run).select("crossings", "hosts").rows() == [(crossings, 2)]


def test_rings_that_are_cut_are_not_counted() -> None:
    run = two_hosts(rings=_rings([0, 1, 2]))
    assert traffic.ring_crossings(run).is_empty()


def test_nic_load_counts_groups_of_ranks_by_channel() -> None:
    frame = _links(*((r, 2, "send", "NET", "IB", True) for r in (0, 1)), (0, 2, "send", "NET", "IB", True))
    shared = traffic.nic_load(two_hosts(frame))
    assert shared.select("host", "sharers", "channels").rows() == [("a", 2, 3)]
    same_channel = frame.with_columns(channel=pl.lit(0, dtype=pl.Int64))
    assert traffic.nic_load(two_hosts(same_channel)).select("sharers", "channels").rows() == [(1, 1)]


def test_a_link_without_its_rank_loads_no_nic() -> None:
    frame = _links((0, 2, "send", "NET", "IB", True), (1, 2, "send", "NET", "IB", True))
    torn = frame.with_columns(src_rank=pl.when(pl.col("src_rank") == 0).then("src_rank"))
    assert traffic.nic_load(two_hosts(torn)).select("ranks").rows() == [([0],)]
