"""How processes and the job ended, as the kernel, launchers, schedulers and Python say it."""

from __future__ import annotations

from nccl_insight.base.data import replace
from nccl_insight.base.model import Ref
from nccl_insight.facts.said.ends import CRASHED, ENDED, FAILED, KILLED, End, ends, joined, kind_of_signal
from tests.by_hand import run


def test_signals_kill_end_or_crash() -> None:
    assert [kind_of_signal(signal) for signal in (9, 15, 2, 1, 11, 6)] == [
        KILLED,
        ENDED,
        ENDED,
        ENDED,
        CRASHED,
        CRASHED,
    ]


def test_witnesses_of_one_death_tell_each_other_whose_it_was() -> None:
    kernel = End(KILLED, "oom-kill", Ref(0, 1), hosts=("a",), time_s=100.0, memory=True, pid=812)
    scheduler = End(KILLED, "task 3 killed", Ref(1, 9), ranks=(3,), hosts=("a",), time_s=130.0, pid=812)
    assert [end.ranks for end in joined([kernel, scheduler])] == [(3,), (3,)]
    for other in (
        replace(scheduler, hosts=("b",)), replace(scheduler, time_s=161.0), replace(scheduler, pid=5, kind=FAILED),
    ):  # fmt: skip
        assert joined([kernel, other])[0].ranks == (), other
    two = [kernel, scheduler, replace(scheduler, ranks=(4,))]
    assert joined(two)[0].ranks == ()
    assert joined([replace(kernel, beside=True), scheduler])[0].ranks == ()


def test_a_line_of_a_launcher_is_an_end_with_its_rank() -> None:
    line = {
        "input_id": 0,
        "line": 7,
        "level": "WARN",
        "diagnosis": "process-killed",
        "text": "rank 1 died",
        "signal": 9,
    }
    found = ends(
        run(errors=[{**line, "end_kind": KILLED, "rank": 1}, {**line, "line": 9, "exit_code": 0, "end_kind": FAILED}])
    )
    assert [(end.kind, end.ref.line, end.signal) for end in found] == [(KILLED, 7, 9)]
    assert ends(run()) == ()
