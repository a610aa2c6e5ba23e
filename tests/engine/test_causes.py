"""Which of several failures is the root: clocks and processes decide, the place in a file does not."""

from __future__ import annotations

from pathlib import Path

import polars as pl

import nccl_insight
from nccl_insight.base.model import Role
from nccl_insight.engine.causes import first_lines

INIT = (
    "gpu0{r}:400{r}:410{r} [0] NCCL INFO ncclCommInitRank comm 0x55d0a{r} rank {r} nranks 3 cudaDev 0 nvmlDev 0 busId "
    "1b000 commId 0x8a1f5f0c3d2e1b00 - Init {state}"
)
SHM = (
    "{at}gpu01:4001:4101 [0] misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-yqMmIK to 9637892 "
    "bytes, error: No space left on device (28)"
)
CUDA = "{at}gpu02:4002:4102 [0] enqueue.cc:1345 NCCL WARN Cuda failure 700 'an illegal memory access was encountered'"
CLOSED = (
    "{at}gpu00:4000:4100 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer gpu0x<51159>"
)


def run(tmp_path: Path, *times: str) -> nccl_insight.Analysis:
    first, second, third = (f"[{t}] " if t else "" for t in times)
    files = {0: [CLOSED.format(at=third)], 1: [SHM.format(at=first)], 2: [CUDA.format(at=second)]}
    for rank, lines in files.items():
        start = [INIT.format(r=rank, state=s) for s in ("START", "COMPLETE")]
        (tmp_path / f"rank{rank}.log").write_text("\n".join([*start, *lines, ""]))
    return nccl_insight.analyze([str(tmp_path / f"rank{n}.log") for n in files])


def test_without_clocks_failures_of_different_files_have_no_root(tmp_path: Path) -> None:
    analysis = run(tmp_path, "", "", "")
    loud = {f.name: f for f in analysis.findings if f.severity.value == "error"}
    assert set(loud) == {"shm-too-small", "cuda-unhandled"}
    assert {f.role for f in loud.values()} == {Role.INDEPENDENT}
    assert analysis.headline.startswith("First error in the log: ")
    assert all("no clock tells which" in f.explanation for f in loud.values())
    assert [f.role for f in analysis.findings if f.name == "peer-died"] == [Role.CASCADE]


def test_clocks_decide(tmp_path: Path) -> None:
    analysis = run(tmp_path, "2025-03-02 11:00:00", "2025-03-02 11:09:00", "2025-03-02 11:09:30")
    roles = {f.name: f.role for f in analysis.findings}
    assert Role.ROOT in roles.values()
    assert not analysis.headline.startswith("First error in the log")


def test_clocks_that_may_differ_do_not(tmp_path: Path) -> None:
    analysis = run(tmp_path, "2025-03-02 11:00:00", "2025-03-02 11:00:09", "2025-03-02 11:00:10")
    assert analysis.headline.startswith("First error in the log: ")


def test_one_failure_is_the_root(tmp_path: Path) -> None:
    for rank, lines in {0: [CLOSED.format(at="")], 1: [SHM.format(at="")]}.items():
        start = [INIT.format(r=rank, state=s) for s in ("START", "COMPLETE")]
        (tmp_path / f"rank{rank}.log").write_text("\n".join([*start, *lines, ""]))
    analysis = nccl_insight.analyze([str(tmp_path / f"rank{n}.log") for n in (0, 1)])
    assert {f.name: f.role for f in analysis.findings}["shm-too-small"] is Role.ROOT
    assert not analysis.headline.startswith("First error in the log")


def test_the_first_sentence_says_since_when(tmp_path: Path) -> None:
    headline = run(tmp_path, "2025-03-02 11:00:00", "2025-03-02 11:09:00", "2025-03-02 11:09:30").headline
    assert "gpu01" in headline
    assert headline.endswith("; since 2025-03-02 11:00:00")


def test_a_wait_is_told_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(
        "[rank0]:[E302 11:10:00.5 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600010 milliseconds "
        "before timing out.\n"
    )
    headline = nccl_insight.analyze(str(log)).headline
    assert headline.endswith("since about 03-02 11:00:00")
    assert "11:10" not in headline


def test_a_collector_of_another_zone_does_not_put_the_cause_behind_its_effect(tmp_path: Path) -> None:
    """NCCL stamps its warnings in local time, the collector every line in UTC, two hours behind."""
    start = [INIT.format(r=0, state="START"), INIT.format(r=1, state="START")]
    broken = [
        SHM.format(at="[2025-03-02 13:00:00] "),
        "gpu00:4000:4100 [0] NCCL INFO socketPollConnect: connect to 10.0.0.2<60891> returned Connection refused, "
        "retrying (1/34) after sleep for 100 msec",
    ]
    stamps = [
        "2025-03-02T10:59:58.100Z",
        "2025-03-02T10:59:59.100Z",
        "2025-03-02T11:00:00.100Z",
        "2025-03-02T11:00:01.2Z",
    ]
    path = tmp_path / "run.log"
    path.write_text("".join(f"{at} {line}\n" for at, line in zip(stamps, [*start, *broken], strict=True)))
    analysis = nccl_insight.analyze([str(path)])
    found = {f.name: (f.role, f.caused_by) for f in analysis.findings}
    assert found["shm-too-small"][0] is Role.ROOT
    assert found["bootstrap-connect-refused"] == (Role.CASCADE, "shm-too-small")


XID = "[{at}] NVRM: Xid (PCI:0000:43:00): 94, pid=2201, name=python3, Contained: SM (0x1)."
RAISED = [
    "[rank2]: Traceback (most recent call last):",
    '[rank2]:   File "/job/train.py", line 9, in <module>',
    "[rank2]: ValueError: shape mismatch",
]


def _with_kernel_log(tmp_path: Path, at: str, *more: str) -> list[tuple[str, str]]:
    lines = [INIT.format(r=r, state=s) for r in range(3) for s in ("START", "COMPLETE")]
    lines += [XID.format(at=at), CLOSED.format(at="[2026-05-04 14:20:01] "), *more]
    (tmp_path / "run.log").write_text("\n".join([*lines, ""]))
    findings = nccl_insight.analyze([tmp_path / "run.log"]).findings
    return [(f.name, f.severity.value) for f in findings if f.severity.value != "info"]


def test_what_the_kernel_logged_days_ago_does_not_come_first(tmp_path: Path) -> None:
    loud = _with_kernel_log(tmp_path, "Sat May  2 02:11:40 2026", *RAISED)
    assert loud == [("application-exception", "error"), ("xid-error", "warning")]


def test_a_kernel_clock_of_another_zone_is_no_earlier_job(tmp_path: Path) -> None:
    loud = _with_kernel_log(tmp_path, "Mon May  4 03:20:01 2026", *RAISED)
    assert ("xid-error", "error") in loud


def test_what_the_kernel_logs_long_after_the_end_is_another_story(tmp_path: Path) -> None:
    loud = _with_kernel_log(tmp_path, "Mon May  4 14:42:10 2026", *RAISED)
    assert loud == [("application-exception", "error"), ("xid-error", "warning")]
    # By the clock of a zone that is half an hour off it would be of the same time.
    assert ("xid-error", "error") in _with_kernel_log(tmp_path, "Mon May  4 14:50:00 2026", *RAISED)


def test_a_gpu_broken_for_days_can_still_fail_cuda(tmp_path: Path) -> None:
    loud = _with_kernel_log(tmp_path, "Sat May  2 02:11:40 2026", CUDA.format(at="[2026-05-04 14:20:00] "))
    assert ("xid-error", "error") in loud


def test_lines_of_two_diagnoses_are_compared_in_each_process() -> None:
    """What comes first in all processes that print both; what a process prints well before cannot follow."""
    rows = [
        *(("one", 0, 1, 10), ("one", 0, 1, 90), ("one", 0, 2, 10), ("one", 0, 3, 1), ("two", 0, 1, 11)),
        *(("two", 0, 2, 12), ("three", 0, 1, 5), ("three", 0, 2, 50), ("alone", 1, 9, 1)),
    ]
    frame = pl.DataFrame(rows, ["cause", "input_id", "pid", "line"], orient="row")
    lines = first_lines(frame.with_columns(host=pl.lit("h")))
    assert lines.precedes("one", "two")
    assert not lines.precedes("two", "one")
    assert lines.possible("two", "one")  # two lines behind are still one event
    assert not lines.precedes("one", "three")
    assert not lines.precedes("three", "one")
    assert lines.possible("one", "three")
    assert lines.possible("three", "one")
    assert lines.possible("alone", "one")
    assert not lines.precedes("alone", "one")
    assert lines.possible("one", "unknown")
    assert not lines.precedes("one", "unknown")
