"""Sends and receives that have no other side."""

from __future__ import annotations

from nccl_insight.facts.progress.flight_recorder.pairs import in_transfer, unpaired
from nccl_insight.tables.run import Run
from tests.by_hand import run

ENTRY = {
    "process_group": "pp",
    "group_ranks": [4, 6],
    "is_p2p": True,
    "record_id": 1,
    "input_sizes": "[[8]]",
    "retired": False,
}


def dumps(*given: dict[str, object]) -> Run:
    """Entries of a pair's transfers from place 0 to place 1 of its group; each rank has a dump of its own."""
    return run(
        flight_recorder=[{**ENTRY, "src": 0, "dst": 1, "input_id": int(str(row["rank"])), **row} for row in given]
    )


SEND = {"rank": 4, "op": "Send", "op_name": "send", "state": "started"}
RECV = {"rank": 6, "op": "Recv", "op_name": "recv", "state": "started"}


def test_a_send_without_a_receive_waits_for_the_other_rank() -> None:
    (found,) = unpaired(dumps(SEND))
    assert (found.op, found.src, found.dst, found.count, found.sizes) == ("Send", 4, 6, 1, "[[8]]")
    assert (found.waits, found.missing) == (4, 6)
    (back,) = unpaired(dumps(RECV))
    assert (back.op, back.waits, back.missing) == ("Recv", 6, 4)


def test_both_sides_or_what_is_done_lack_nothing() -> None:
    assert unpaired(dumps(SEND, RECV)) == ()
    assert unpaired(dumps({**SEND, "state": "completed"})) == ()
    assert unpaired(dumps({**SEND, "is_p2p": False})) == ()
    assert unpaired(run()) == ()


def test_what_is_enqueued_behind_a_collective_that_all_entered_lacks_nothing_yet() -> None:
    """Without times nothing says that the collective has begun, but where every member enqueued it, it has."""
    first = {"process_group": "all", "op": "AllReduce", "op_name": "all_reduce", "is_p2p": False, "collective_seq": 1}
    waits = {**SEND, "state": "scheduled", "record_id": 2}
    ours, theirs = ({**first, "state": "scheduled", "rank": rank} for rank in (4, 6))
    assert unpaired(dumps(ours, theirs, waits)) == ()
    assert len(unpaired(dumps(ours, waits))) == 1
    assert len(unpaired(dumps({**ours, "record_id": 3}, {**theirs, "record_id": 3}, waits))) == 1


def test_the_ranks_that_are_in_a_transfer() -> None:
    assert in_transfer(dumps(SEND, {**RECV, "state": "completed"})) == {4}
    inside = {**SEND, "state": "scheduled"}
    over = {**SEND, "record_id": 2, "op": None, "op_name": "coalesced", "state": "completed"}
    assert in_transfer(dumps(inside, over)) == frozenset()
    assert in_transfer(run()) == frozenset()
