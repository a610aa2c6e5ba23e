"""Matched collectives side by side."""

from __future__ import annotations

import polars as pl

from nccl_insight.tables import schema
from nccl_insight.tables.waiting import collective_ranks, collective_statistics, waits
from tests.by_hand import rows


def test_statistics_have_one_order() -> None:
    """Kinds that took equally long are ordered by name."""
    from nccl_insight.tables.waiting import collective_statistics

    rows = schema.complete(
        "collectives",
        pl.DataFrame({"process_group": [f"g{n}" for n in range(40)], "duration_ns": [5] * 40, "op": ["Send"] * 40}),
    )
    assert collective_statistics(rows)["process_group"].to_list() == sorted(f"g{n}" for n in range(40))


OP = {"op": "AllReduce", "process_group": "0", "size_bytes": 8, "match_id": 1}
PAIR = rows(
    "collectives",
    {**OP, "rank": 1, "start_ns": 60, "duration_ns": 40, "wait_ns": 0, "busbw_gbps": 2.0},
    {**OP, "rank": 0, "start_ns": 0, "duration_ns": 105, "wait_ns": 65, "busbw_gbps": 1.0},
    {**OP, "rank": 0, "start_ns": 500, "duration_ns": 20, "match_id": None},
)


def test_the_shortest_came_last_and_the_longest_first() -> None:
    found = waits(PAIR)
    assert found.select("rank", "collectives", "wait_ns", "times_last", "times_first").rows() == [
        (0, 1, 65, 0, 1), (1, 1, 0, 1, 0),
    ]  # fmt: skip
    assert found["wait_share"].to_list() == [65 / 105, 0.0]


def test_each_rank_has_its_part_of_a_collective() -> None:
    (row,) = collective_ranks(PAIR).rows(named=True)
    assert (row["ranks"], row["start_ns"], row["wait_ns"]) == ([0, 1], [0, 60], [65, 0])
    assert (row["transfer_ns"], row["worst_wait_ns"], row["last_rank"], row["end_spread_ns"]) == (40, 65, 1, 5)


def test_a_collective_of_several_ranks_counts_once() -> None:
    (row,) = collective_statistics(PAIR).rows(named=True)
    assert (row["count"], row["transfer_ns"], row["min_ns"], row["max_ns"]) == (2, 60, 20, 40)
    assert (row["max_busbw_gbps"], row["median_ns"]) == (2.0, 30)
    assert collective_statistics(PAIR.clear()).is_empty()
