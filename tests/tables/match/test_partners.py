"""Which rows of several ranks are one operation."""

from __future__ import annotations

import polars as pl

from nccl_insight.tables.match.candidates import candidates
from nccl_insight.tables.match.partners import matched, members_of
from tests.by_hand import rows

EVENT = {
    "source": "kernel",
    "process_group": "0",
    "group_ranks": [0, 1],
    "op": "AllReduce",
    "dtype": "Float",
    "duration_ns": 5,
}


def pairs(
    *given: tuple[int, int | None, int, int], hosts: tuple[str, ...] = ("a", "b"), step: int | None = None
) -> set[tuple[int, ...]]:
    """Rows of (rank, number, size, start) that are one operation, by their places in what was given."""
    table = rows(
        "collectives",
        *(
            {**EVENT, "rank": r, "seq": seq, "size_bytes": size, "start_ns": start, "step": step}
            for r, seq, size, start in given
        ),
    )
    host = pl.col("rank").replace_strict(dict(enumerate(hosts)), return_dtype=pl.String)
    found = members_of(matched(candidates(table).with_columns(host=host)))
    return {tuple(sorted(part["row"].to_list())) for part in found.partition_by("match_id")}


def test_a_missing_event_never_shifts_the_others() -> None:
    assert pairs((0, 1, 8, 10), (0, 2, 8, 20), (0, 3, 8, 30), (1, 1, 8, 11), (1, 3, 8, 31)) == {(0, 3), (2, 4)}
    # Without numbers the order is not proven where the ranks differ.
    assert pairs((0, None, 8, 10), (0, None, 8, 20), (0, None, 8, 30), (1, None, 8, 11), (1, None, 8, 31)) == set()


def test_without_numbers_the_same_operations_in_the_same_order_are_one() -> None:
    assert pairs((0, None, 8, 10), (0, None, 16, 20), (1, None, 8, 500), (1, None, 16, 600)) == {(0, 2), (1, 3)}
    assert pairs((0, None, 8, 10), (0, None, 16, 20), (1, None, 16, 500), (1, None, 8, 600)) == set()


def test_one_number_with_two_sizes_is_no_operation() -> None:
    assert pairs((0, 1, 8, 10), (1, 1, 16, 10)) == set()
    assert pairs((0, 1, 8, 10), (0, 1, 8, 20), (1, 1, 8, 10), (1, 1, 8, 20)) == {(0, 2), (1, 3)}


def test_on_one_host_the_clock_decides_where_the_ranks_differ() -> None:
    given = ((0, None, 8, 10), (0, None, 8, 20), (0, None, 8, 30), (1, None, 8, 11), (1, None, 8, 31))
    assert pairs(*given, hosts=("a", "a")) == {(0, 3), (2, 4)}


def test_an_operation_that_one_rank_lacks_is_found_on_the_others() -> None:
    given = ((0, None, 8, 10), (0, None, 8, 30), (1, None, 8, 11), (2, None, 8, 12), (2, None, 8, 32))
    assert pairs(*given, hosts=("a", "a", "a")) == {(0, 2, 3), (1, 4)}
