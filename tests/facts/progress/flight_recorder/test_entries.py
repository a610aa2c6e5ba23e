"""Entries of the dumps by process group, and how far each rank got."""

from __future__ import annotations

from nccl_insight.facts.progress.flight_recorder.entries import (
    Group,
    entries_of,
    groups_of,
    opened,
    progress_of,
    timed_ranks,
    unnamed_counters,
)
from nccl_insight.tables.run import Run
from tests.by_hand import run

ENTRY = {"process_group": "0", "pg_desc": "default_pg", "group_ranks": [0, 1], "is_p2p": False, "op_name": "all_reduce"}


def dumps(*given: tuple[int | None, int, str, bool], **more: object) -> Run:
    """Entries of (rank, number, state, retired), one input for each rank."""
    return run(
        flight_recorder=[
            {
                **ENTRY,
                "input_id": 9 if r is None else r,
                "rank": r,
                "collective_seq": n,
                "record_id": n,
                "state": s,
                "retired": d,
                **more,
            }
            for r, n, s, d in given
        ]
    )


def test_how_far_each_rank_got() -> None:
    one = dumps((0, 7, "completed", True), (0, 8, "scheduled", False), (1, 7, "completed", False))
    entries = entries_of(one)
    assert entries.select("rank", "collective_seq", "done").rows() == [(0, 7, True), (0, 8, False), (1, 7, True)]
    found = progress_of(one, entries).sort("rank").select("rank", "enqueued", "finished").rows()
    assert found == [(0, 8, 7), (1, 7, 7)]
    (group,) = groups_of(entries).values()
    assert (group.members, group.label) == ((0, 1), "0 (default_pg)")


def test_a_dump_of_nobody_is_open_only_where_something_is() -> None:
    one = dumps((0, 7, "completed", True), (None, 8, "started", False), (None, 7, "completed", False))
    assert opened(one).select("rank", "collective_seq").rows() == [(None, 8)]
    assert entries_of(one)["rank"].to_list() == [0]


def test_one_dump_of_a_rank_is_kept() -> None:
    twice = run(
        flight_recorder=[
            {**ENTRY, "input_id": n, "rank": 0, "collective_seq": 5 + n, "state": "started"} for n in (4, 2)
        ]
    )
    assert entries_of(twice)["input_id"].to_list() == [2]
    assert timed_ranks(entries_of(twice)) == {0}
    assert timed_ranks(entries_of(dumps((0, 7, "scheduled", False)))) == frozenset()


def test_labels_say_the_operation_with_its_sizes() -> None:
    one = dumps((0, 7, "started", False), input_sizes="[[4027,5120],[2]]", input_dtypes="BFloat16")
    assert entries_of(one)["label"].to_list() == ["all_reduce 4027x5120 2 BFloat16"]
    assert Group("k", "74", "undefined", None).label == "74"


def test_counters_that_no_name_belongs_to() -> None:
    rows = [
        {"input_id": 0, "rank": 0, "last_enqueued": 4}, {"input_id": 0, "rank": 0, "last_enqueued": 9},
        {"input_id": 0, "rank": 1, "process_group": "0", "last_enqueued": 7},
    ]  # fmt: skip
    assert unnamed_counters(run(flight_recorder_groups=rows)) == {0: 9}
