"""What one look at a job shows."""

from __future__ import annotations

from nccl_insight.live.watch.progress import Watch
from nccl_insight.live.watch.seen import OTHERS, Seen, look
from tests.by_hand import run


def test_memory_grows_with_ranks_and_not_with_time() -> None:
    state = Watch(10, 60)
    for turn in range(3000):
        errors = (("gpu01", 1, f"WARN call {turn} failed at 0x{turn:x}", False),)
        list(state.take(Seen(counts={"c": {0: turn, 1: turn}}, errors=errors), float(turn)))
    assert len(state.comms["c"].ranks) == 2
    assert len(state._said) == 1


def test_a_look_at_new_lines_tells_ranks_and_the_collectives_of_each() -> None:
    process = {"host": "gpu1", "comm": "0x1", "input_id": 3}
    new = run(
        ranks=[
            {**process, "pid": 7, "comm_id": "c", "rank": 0, "nranks": 2, "bus_id": "1b000", "init_complete": True},
            {**process, "pid": 8, "comm_id": "c", "rank": 1, "nranks": 2, "destroyed": "aborted"},
            {**process, "pid": 9, "rank": 1},
        ],
        calls=[
            {**process, "pid": 7, "op": "AllReduce"}, {**process, "pid": 7, "op": "AllGather"},
            {**process, "pid": 7, "op": "Send"}, {**process, "pid": 7, "comm": "0x2", "op": "AllReduce"},
        ],
    )  # fmt: skip
    found = look(new, {3: "a.log"}, {("gpu1", 8): "b.log"})
    assert found.opened == {("c", 0): (2, True)}
    assert found.closed == {("c", 1)}
    assert found.places == {("c", 0): ("gpu1", 7), ("c", 1): ("gpu1", 8)}
    assert found.files == {("c", 0): "a.log", ("c", 1): "b.log"}
    assert found.gpus == {("gpu1", "1b000"): 7}
    assert found.begun == {"c": {0: 2}}  # a send is no collective, and no line explains the other pointer
    assert found.touched == {"c"}
    assert found.grew


def test_a_look_at_ras_tells_counts_and_who_does_not_answer() -> None:
    rank = {"comm_hash": "c", "host": "gpu1"}
    new = run(
        ras_ranks=[
            {**rank, "rank": 0, "pid": 7, "missing": False},
            {**rank, "rank": 1, "pid": 8, "missing": True, "considered_dead": True},
            {**rank, "rank": 2, "pid": 9, "missing": True, "considered_dead": False},
        ],
        ras_counts=[{"comm_hash": "c", "rank": 0, "op_count": count} for count in (4, 2)],
        ras=[
            {"event": "mismatch", "comm_hash": "d", "op_count": 9},
            {"event": "mismatch", "comm_hash": "d", "op_count": 5},
        ],
    )
    found = look(new, {}, {})
    assert found.report == frozenset({"c"})
    assert not found.alike
    assert found.gone == {("c", 1): "is considered dead", ("c", 2): "does not answer"}
    assert found.counts == {"c": {0: 6}, "d": {OTHERS: 9}}


def test_where_the_program_says_it_is() -> None:
    done = [{"kind": "good end", "text": "all is done"}]
    new = run(
        progress=[
            {"unit": "epoch", "counter": 1, "total": 3},
            {"unit": "step", "counter": 40, "total": 100, "duration_s": 0.5},
            {"unit": "step", "counter": 41, "total": 100, "duration_s": 0.6},
            {"unit": "step", "counter": 41, "pause": "saving a checkpoint"},
        ],
        endings=done,
    )
    found = look(new, {}, {})
    assert (found.step, found.total, found.step_s, found.pause) == (41, 100, 0.6, "saving a checkpoint")
    assert found.done == "all is done"
    bar = look(run(progress=[{"unit": "it", "counter": 8, "total": 8}]), {}, {})
    assert (bar.step, bar.total, bar.pause, bar.done) == (8, None, "", "")
