"""Where the main threads of processes stand."""

from __future__ import annotations

from nccl_insight.facts.said.stands import stands
from tests.by_hand import run

RANKS = [{"host": h, "pid": p, "rank": r, "comm_id": "c"} for h, p, r in (("a", 7, 0), ("b", 8, 1))]


def test_the_main_thread_speaks_for_its_process() -> None:
    frame = {"input_id": 0, "host": "b", "pid": 8, "depth": 0}
    rows = [
        {**frame, "line": 3, "thread": "Thread-1", "function": "run", "file": "threading.py"},
        {**frame, "line": 9, "thread": "MainThread", "function": "forward", "file": "model.py", "line_number": 7},
    ]
    (stand,) = stands(run(ranks=RANKS, stacks=rows))
    assert (stand.rank, stand.thread, stand.line) == (1, "MainThread", 9)
    assert stands(run(ranks=RANKS)) == ()
