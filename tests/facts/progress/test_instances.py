"""A process group and where its ranks stand."""

from __future__ import annotations

import polars as pl

from nccl_insight.facts.progress.instances import UNNAMED, Instance, earliest


def group(*rows: tuple[int, int | None, int | None], name: str = "0", op: str = "ALLREDUCE", size: int = 4) -> Instance:
    """Rows of (rank, number of the oldest operation that it waits in, last issued)."""
    frame = pl.DataFrame(
        {
            "rank": [r for r, _, _ in rows], "global_rank": [r for r, _, _ in rows],
            "timed_out_seq": [seq for _, seq, _ in rows], "last_enqueued": [last for _, _, last in rows],
            "last_completed": [None] * len(rows), "op": [op] * len(rows), "time_s": [float(r) for r, _, _ in rows],
        },
        schema_overrides={"timed_out_seq": pl.Int64, "last_enqueued": pl.Int64, "last_completed": pl.Int64},
    )  # fmt: skip
    return Instance(name, frame, frozenset(range(size)), world=True, comparable=True)


def test_the_rank_that_waits_in_an_older_operation_is_behind() -> None:
    found = group((0, 8, 9), (1, 8, 9), (2, 6, 6), (3, 8, 9))
    assert found.ranks_behind == {2}
    assert found.ranks_inside == {0, 1, 3}
    assert found.low == 8
    assert found.entered == {0, 1, 3}
    assert found.lacking == {2}
    assert not found.complete
    assert found.first_s == 0.0


def test_a_rank_that_issued_less_never_came() -> None:
    found = group((0, 8, 8), (1, 8, 8), (2, None, 7), (3, None, 8))
    assert found.ranks_never == {2}
    assert found.entered == {0, 1, 3}
    assert found.standing == {0, 1}
    assert found.sound


def test_all_in_one_collective_are_complete() -> None:
    every = [(rank, 8, 8) for rank in range(4)]
    assert group(*every).complete
    assert not group(*every, size=5).complete
    assert not group(*every[:3]).complete


def test_half_of_the_ranks_are_not_behind_and_pairs_are_no_collectives() -> None:
    assert group((0, 8, 9), (1, 6, 6), (2, 6, 6)).ranks_behind == frozenset()
    pairs = group((0, 8, 9), (1, 6, 6), (2, 8, 9), op="SEND")
    assert (pairs.ranks_behind, pairs.paired, pairs.low) == (frozenset(), {0, 1, 2}, None)
    mixed = group((0, 8, 8), (1, 8, 8), (2, 6, 6), name=UNNAMED)
    assert mixed.ranks_behind == {2}


def test_without_times_there_is_no_earliest() -> None:
    assert earliest(pl.DataFrame({"time_s": [None, 7.5, 3.0]})) == 3.0
    assert earliest(pl.DataFrame({"time_s": []}, schema={"time_s": pl.Float64})) is None
