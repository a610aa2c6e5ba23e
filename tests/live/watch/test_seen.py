"""What one look at a job shows."""

from __future__ import annotations

from nccl_insight.live.watch.progress import Watch
from nccl_insight.live.watch.seen import Seen


def test_memory_grows_with_ranks_and_not_with_time() -> None:
    state = Watch(10, 60)
    for turn in range(3000):
        errors = (("gpu01", 1, f"WARN call {turn} failed at 0x{turn:x}", False),)
        list(state.take(Seen(counts={"c": {0: turn, 1: turn}}, errors=errors), float(turn)))
    assert len(state.comms["c"].ranks) == 2
    assert len(state._said) == 1
