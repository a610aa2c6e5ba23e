"""Running children with a deadline."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nccl_insight.base.model import Action
from nccl_insight.live.capture import processes
from nccl_insight.live.capture.parent import Captured, describe
from nccl_insight.live.capture.processes import Output, Task, run_group
from nccl_insight.live.preflight.model import Status
from tests.captures import alive
from tests.live.gates import checks, good, node
from tests.live.made_machines import asked, dgx, told
from tests.stand_ins.pynvml import Machine

# --- processes -----------------------------------------------------------------------------------------------


def test_children_that_end_well() -> None:
    outcome = run_group([Task(str(n), (sys.executable, "-c", "pass"), os.environ) for n in range(2)], 30)
    assert outcome.ok
    assert [c.code for c in outcome.children] == [0, 0]


def test_a_hang_is_killed_whole_and_in_time(tmp_path: Path) -> None:
    """The child ignores SIGTERM and has a child of its own; both write their process group."""
    marker = tmp_path / "group"
    code = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(marker)!r}, 'w').write(str(os.getpgrp()))\n"
        "time.sleep(600)\n"
    )
    started = time.monotonic()
    outcome = run_group([Task("x", (sys.executable, "-c", code), os.environ)], 1.5, grace_s=0.5)
    assert outcome.timed_out
    assert time.monotonic() - started < 1.5 + 5
    assert outcome.children[0].killed
    assert not alive(int(marker.read_text()))


def test_what_a_finished_child_left_behind_is_ended(tmp_path: Path) -> None:
    marker = tmp_path / "group"
    code = (
        "import os, subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(marker)!r}, 'w').write(str(os.getpgrp()))\n"
    )
    assert run_group([Task("x", (sys.executable, "-c", code), os.environ)], 30).ok
    assert not alive(int(marker.read_text()))


def test_the_others_are_ended_soon_after_one_fails() -> None:
    tasks = [
        Task("bad", (sys.executable, "-c", "raise SystemExit(7)"), os.environ),
        Task("waits", (sys.executable, "-c", "import time; time.sleep(600)"), os.environ),
    ]
    outcome = run_group(tasks, 60, grace_s=0.5, straggle_s=0.3)
    assert not outcome.timed_out
    assert [(c.name, c.code) for c in outcome.failed] == [("bad", 7)]
    assert outcome.seconds < 30


def test_a_stopped_child_does_not_hold_the_deadline() -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"
    outcome = run_group([Task("stopped", (sys.executable, "-c", code), os.environ)], 1.0, grace_s=0.5)
    assert outcome.timed_out
    assert outcome.seconds < 20
    assert not outcome.stuck


def test_ranks_of_other_nodes_do_not_wait_for_a_stopped_one() -> None:
    task = Task("rank 0", (sys.executable, "-c", "import time; time.sleep(600)"), os.environ)
    outcome = run_group([task], 600.0, grace_s=0.5, straggle_s=0.1, hopeless=lambda: True)
    assert (outcome.given_up, outcome.timed_out) == (True, False)


def test_a_child_that_cannot_be_killed_is_said_to_be_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals that do not arrive stand for a process in uninterruptible sleep."""
    monkeypatch.setattr(processes, "_signal", lambda pid, number: None)
    monkeypatch.setattr(processes, "_UNKILLABLE_S", 0.3)
    task = Task("rank 0", (sys.executable, "-c", "import time; time.sleep(15)"), os.environ)
    outcome = run_group([task], 0.5, grace_s=0.2)
    assert [c.name for c in outcome.stuck] == ["rank 0"]
    assert outcome.seconds < 14
    captured = Captured(Path("/nonexistent"), outcome, 1)
    assert captured.code == 5
    assert "cannot be killed" in describe(captured)


def test_a_tool_that_hangs_is_told_from_one_that_is_missing() -> None:
    assert processes.run_short(("no-such-tool-anywhere",), 5).state == "missing"
    assert processes.run_short((sys.executable, "-c", "raise SystemExit(3)"), 30).state == "failed"
    assert processes.run_short((sys.executable, "-c", "import time; time.sleep(60)"), 0.5).state == "hung"
    assert processes.run_short((sys.executable, "-c", "print('hello')"), 30).text == "hello\n"


ROW = "{}, 00000000:{:02X}:00.0, {ecc}, {pending}, No, {hot}, Not Active, Default, {mig}, {used}, 16, 16\n"


@pytest.mark.parametrize(
    ("change", "name", "status"),
    [
        ({"ecc": "4"}, "ecc", Status.FAIL),
        ({"pending": "Yes"}, "row remapping", Status.WARN),
        ({"hot": "Active"}, "clocks", Status.WARN),
        ({"mig": "Enabled"}, "mig", Status.WARN),
        ({"used": "30211"}, "gpu memory", Status.WARN),
    ],
)
def test_the_health_of_a_gpu(tmp_path: Path, change: dict[str, str], name: str, status: Status) -> None:
    fine = {"ecc": "0", "pending": "No", "hot": "Not Active", "mig": "[N/A]", "used": "4"}
    rows = [ROW.format(n, n, **{**fine, **(change if n == 3 else {})}) for n in range(8)]
    subject = node(good(tmp_path), answer=Output("ok", "".join(rows)))
    found = checks(subject)[name]
    assert found.status is status
    assert "GPU 3" in found.observed
    healthy = node(tmp_path, answer=Output("ok", "".join(ROW.format(n, n, **fine) for n in range(8))))
    assert checks(healthy)["gpu health"].status is Status.PASS


def test_a_driver_tool_that_hangs_fails_the_node(tmp_path: Path) -> None:
    found = checks(node(good(tmp_path), answer=Output("hung")))["driver"]
    assert (found.status, found.action) == (Status.FAIL, Action.ISOLATE)
    failed = checks(node(tmp_path, answer=Output("failed", error="Failed to initialize NVML: Driver mismatch\n")))
    assert "Driver mismatch" in failed["driver"].observed


def test_a_driver_that_hangs_is_asked_once(tmp_path: Path) -> None:
    subject = replace(asked(tmp_path, dgx(), Machine(hang_s=9)), tools={"--query-gpu": Output("ok", "x")})
    found = told(subject)
    assert found["driver"].status is Status.FAIL
    assert "NVML did not return within 4 s" in found["driver"].observed


def test_a_child_that_is_stopped_is_said_to_be_while_the_others_wait(tmp_path: Path) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"
    told: list[str] = []
    task = Task("rank 0", (sys.executable, "-c", code), dict(os.environ))
    done = run_group([task], 30.0, stopped=lambda name: (told.append(name), os.kill(_child(), signal.SIGCONT))[0])
    (one,) = done.children
    assert (done.timed_out, one.killed, told) == (False, False, ["rank 0"])


def _child() -> int:
    """The process that this one has stopped."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            state, parent = (entry / "stat").read_text().rpartition(") ")[2].split()[:2]
            if (state, int(parent)) == ("T", os.getpid()):
                return int(entry.name)
    raise AssertionError
