"""Text as people paste it: several lines on one, loggers in front, exceptions with something behind them."""

from __future__ import annotations

from pathlib import Path

import nccl_insight
from nccl_insight.model import Analysis
from nccl_insight.readers.nccl_log import recover


def _said(tmp_path: Path, *lines: str) -> Analysis:
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return nccl_insight.analyze([path])


def _names(analysis: Analysis) -> set[str]:
    return {f.name for f in analysis.findings if f.severity.value != "info"}


_DEAD = (
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: "
    "Worker unexpectedly exits with a connection error code 2. End of file."
)
_TIMEOUT = (
    "[rank3]:[E416 13:21:26.967375581 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=76, OpType=BROADCAST, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600089 milliseconds "
    "before timing out."
)


def test_lines_glued_before_the_tag_of_a_launcher(tmp_path: Path) -> None:
    glued = _said(
        tmp_path, f"{_DEAD} (Actor pid=744, ip=10.0.0.7) {_TIMEOUT} (Actor pid=745, ip=10.0.0.7) step 5"
    )
    apart = _said(tmp_path, _DEAD, f"(Actor pid=744, ip=10.0.0.7) {_TIMEOUT}")
    assert _names(glued) == _names(apart)
    assert _names(apart) == {"watchdog-timeout", "process-crashed"}


def test_an_exception_in_front_of_records_on_the_same_line(tmp_path: Path) -> None:
    record = "a1:213:213 [{dev}] NCCL INFO cudaDriverVersion 12080"
    front = (
        "x" * 180 + " RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)"
    )
    said = _said(tmp_path, " ".join([front, record.format(dev=0), record.format(dev=1)]))
    assert _names(said) == {"unexplained-failure"}


def test_short_lines_are_not_taken_apart() -> None:
    text = "(Actor pid=744, ip=10.0.0.7) (Worker pid=5) loss 2.5"
    assert recover.tagged(text) == [text]
    assert recover.before_records("3: a1:213:213 [0] NCCL INFO x a1:213:213 [0] NCCL INFO y") == ""


def test_a_traceback_glued_to_the_last_error(tmp_path: Path) -> None:
    tag = "(VllmWorkerProcess pid=3985) ERROR 01-15 02:47:32 multiproc_worker_utils.py:226] "
    said = _said(
        tmp_path,
        tag + "Exception in worker: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, "
        "unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.20.5",
        tag + "Last error:",
        tag + "Error while creating shared memory segment /dev/shm/nccl-g0wGsu (size 9637888), Traceback "
        "(most recent call last):",
    )
    assert _names(said) == {"shm-too-small"}
