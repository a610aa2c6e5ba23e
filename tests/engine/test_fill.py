"""Steps that ask the scheduler name the job, and what is gone is not asked for its stack."""

from __future__ import annotations

from pathlib import Path

import pytest

import nccl_insight
from nccl_insight.base.model import Step
from nccl_insight.engine.fill import HOLES, without_holes
from tests.hangs import inits, judged, log, timeout

HEAD = "gpu01:4121:4190 [0] NCCL INFO NCCL version 2.27.7+cuda12.8\n"


def steps(path: Path, text: str, name: str) -> tuple[Step, ...]:
    path.write_text(HEAD + text, encoding="utf-8")
    return next(f for f in nccl_insight.analyze(path).findings if f.name == name or not name).steps


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        (
            "run.log",
            "slurmstepd: error: *** STEP 771204.0 ON gpu01 CANCELLED AT 2025-04-12T23:59:47 DUE TO TIME LIMIT ***\n",
            "sacct -j 771204 ",
        ),
        ("slurm-88123.out", "srun: error: gpu02: task 3: Out Of Memory\n", "sacct -j 88123 "),
        (
            "run.log",
            "slurmstepd: error: Detected 1 oom_kill event in StepId=4410.0.\n"
            "slurmstepd: error: Detected 1 oom_kill event in StepId=4411.0.\n",
            "sacct -S now-1day ",
        ),
    ],
)
def test_the_job_is_named_where_lines_or_files_tell_one(tmp_path: Path, name: str, text: str, command: str) -> None:
    found = steps(tmp_path / name, text, "")
    assert any(step.text.startswith(command) for step in found), found


def test_an_unknown_scheduler_is_asked_in_words(tmp_path: Path) -> None:
    killed = "mpirun noticed that process rank 3 with PID 5231 on node gpu02 exited on signal 9 (Killed).\n"
    found = steps(tmp_path / "run.log", killed, "process-killed")
    assert not any("sacct -j <" in s.text or "$SLURM" in s.text for s in found)
    assert any(s.label == "do" and "scheduler" in s.text for s in found)


def test_what_is_known_fills_a_hole_and_a_command_finds_the_rest() -> None:
    hole = next(iter(HOLES))
    assert without_holes(f"look at <{hole}>", {hole: "gpu01"}) == "look at gpu01"
    assert without_holes(f"look at <{hole}>") == f"look at {HOLES[hole][1]}"
    assert without_holes("look at <nothing known>") == "look at <nothing known>"
    assert without_holes("ls") == "ls"


def test_a_step_names_the_hosts_of_its_finding(tmp_path: Path) -> None:
    waits = [line for r in range(4) for line in timeout(r, 34 if r == 3 else 35, 35, 33)]
    first = judged(log(tmp_path / "run.log", *inits(), *waits))[1][0]
    assert (first.name, first.hosts) == ("rank-desync", ("gpu02",))
    assert [(s.text, s.where) for s in first.steps[1:]] == [("dmesg -T | grep -i xid", "on gpu02")]
    assert "on gpu02" in first.steps[0].where
    assert "--pid" in first.steps[0].text
