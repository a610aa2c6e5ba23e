"""Process groups by the sources that count: how many operations each rank issued, and whom a barrier missed."""

from __future__ import annotations

from nccl_insight.facts.progress.claims import RAS
from nccl_insight.facts.progress.tallies import counted, ras_counts, recorded
from tests.by_hand import run


def test_counts_of_ras_come_from_both_of_its_tables() -> None:
    found = ras_counts(
        run(
            ras=[
                {
                    "event": "mismatch",
                    "comm_hash": "c",
                    "op": "AllReduce",
                    "op_count": 7,
                    "count": 3,
                    "input_id": 0,
                    "line": 4,
                },
                {
                    "event": "mismatch_member",
                    "comm_hash": "c",
                    "op": "AllReduce",
                    "op_count": 5,
                    "rank": 2,
                    "input_id": 0,
                },
                {"event": "dead", "comm_hash": "c", "op_count": 1, "input_id": 0},
            ],
            ras_counts=[{"comm_hash": "d", "op": "AllGather", "rank": 1, "op_count": 9, "input_id": 0}],
            ras_ranks=[{"comm_hash": "d", "rank": 1, "global_rank": 5, "host": "gpu1", "input_id": 0}],
        )
    )
    assert found.select("comm", "op", "rank", "global_rank", "host", "count", "ranks").rows() == [
        ("c", "AllReduce", None, None, None, 7, 3), ("c", "AllReduce", 2, None, None, 5, None),
        ("d", "AllGather", 1, 5, "gpu1", 9, 1),
    ]  # fmt: skip


def test_the_rank_that_issued_less_is_behind() -> None:
    each = [
        {"comm_hash": "d", "op": "AllGather", "rank": r, "op_count": n, "input_id": 0}
        for r, n in ((0, 9), (1, 7), (2, 9))
    ]
    place = [{"comm_hash": "d", "rank": r, "global_rank": 10 + r, "host": "gpu1", "input_id": 0} for r in range(3)]
    (group,) = counted(run(ras_counts=each, ras_ranks=place), RAS)
    assert (group.name, group.world, group.comparable) == ("d", True, True)
    assert group.members == {10, 11, 12}
    assert dict(group.rows.select("global_rank", "timed_out_seq").iter_rows()) == {10: 8, 11: None, 12: 8}
    assert counted(run(), RAS) == ()


def test_the_last_number_of_each_operation_of_inspector() -> None:
    row = {"source": "inspector", "process_group": "g", "op": "AllReduce", "group_size": 2, "input_id": 0}
    rows = [{**row, "rank": r, "seq": n} for r, n in ((0, 4), (1, 3), (0, 6), (0, 5))]
    found = recorded(run(collectives=[*rows, {**row, "rank": 1, "seq": 99, "source": "kernel"}]))
    assert found.select("rank", "seq").rows() == [(0, 6), (1, 3)]
