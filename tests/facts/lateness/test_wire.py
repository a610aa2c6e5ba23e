"""Transfers as the wire saw them: one row per collective, with waiting removed where several ranks were traced."""

from __future__ import annotations

from nccl_insight.facts.lateness.wire import missing_members, recorded, transfers
from tests.by_hand import run

OP = {
    "op": "AllReduce",
    "source": "kernel",
    "input_id": 0,
    "size_bytes": 1_000_000,
    "group_size": 2,
    "group_ranks": [0, 1],
}


def test_the_last_to_arrive_tells_how_long_the_transfer_took() -> None:
    found = transfers(
        run(
            collectives=[
                {**OP, "rank": 0, "match_id": 1, "start_ns": 0, "duration_ns": 9_000, "exposed_ns": 9_000},
                {**OP, "rank": 1, "match_id": 1, "start_ns": 5_000, "duration_ns": 4_000, "exposed_ns": 1_000},
                {**OP, "rank": 1, "start_ns": 50, "duration_ns": 700},
            ]
        )
    )
    together, alone = found.rows(named=True)
    assert (together["rank"], together["ranks"], together["start_ns"], together["wire_ns"]) == (1, [0, 1], 5_000, 4_000)
    assert (together["waited"], together["beside"], together["complete"]) == (5_000, 0.75, True)
    assert together["busbw_gbps"] == 250.0  # 1 MB in 4 us, times 2(n-1)/n = 1
    assert (alone["waited"], alone["wire_ns"], alone["complete"]) == (None, 700, False)


def test_a_send_and_its_receive_are_one_row() -> None:
    point = {**OP, "size_bytes": 10, "match_id": 1, "start_ns": 0, "group_size": 4, "group_ranks": [0, 1, 2, 3]}
    both = [
        {**point, "op": "Recv", "rank": 3, "peer": 2, "duration_ns": 50},
        {**point, "op": "Send", "rank": 2, "peer": 3, "duration_ns": 80},
    ]
    (row,) = transfers(run(collectives=both)).rows(named=True)
    assert (row["op"], row["src"], row["dst"], row["wire_ns"], row["complete"]) == ("Send", 2, 3, 50, True)
    assert transfers(run(collectives=[{**both[0], "source": "flight_recorder"}])).is_empty()


def test_dumps_count_where_every_member_timed_the_operation() -> None:
    dump = {**OP, "source": "flight_recorder", "process_group": "0", "seq": 4}
    one = [{**dump, "rank": 0, "duration_ns": 9_000}]
    two = [*one, {**dump, "rank": 1, "duration_ns": 8_000}]
    assert recorded(run(collectives=one)).is_empty()
    (row,) = recorded(run(collectives=two)).rows(named=True)
    assert (row["ranks"], row["wire_ns"], row["busbw_gbps"]) == ([0, 1], 8_000, 125.0)
    other = [one[0], {**two[1], "seq": 5}]
    assert recorded(run(collectives=other)).is_empty()


def test_members_without_a_trace() -> None:
    member = {**OP, "group_ranks": [2, 0, 1], "process_group": "0"}
    two = [{**member, "rank": rank} for rank in (0, 2)]
    assert missing_members(run(collectives=two)) == {(0, 1, 2): (1,)}
    assert missing_members(run(collectives=two, trace_info=[{"rank": 1}])) == {}
    assert missing_members(run(collectives=two[:1])) == {}
