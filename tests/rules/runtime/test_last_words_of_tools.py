# ruff: noqa: E501 - log lines are long
"""What launchers, operators and schedulers print of a job that failed: who it was, and what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nccl_insight.base.model import Severity
from nccl_insight.share import api

GANG = "1/1 tasks in gang unschedulable: pod group is not ready, 1 Pending, 1 minAvailable; Pending: 1 Undetermined"
RAYLET = "(raylet) Raylet is terminated. Termination is unexpected. Possible reasons include: (1) SIGKILL by the user or system OOM killer, (2) Invalid memory access from Raylet causing SIGSEGV or SIGBUS, (3) Other termination signals."
SAID = {
    "a gang that does not fit, in a list": (f"3s          Warning   FailedScheduling   pod/w-1  {GANG}", "launch-failed", "describe podgroup"),
    "no GPU, in a list": ("3s          Warning   FailedScheduling   pod/w-1  0/12 nodes are available: 12 Insufficient nvidia.com/gpu.", "launch-failed", "device-plugin"),
    "a pod, by logrus": ("INFO[0289] Pod: ml.w-1 exited with code 1  job=ml.w replica-type=worker uid=4acaf99e", "application-exception", "kubectl logs"),
    "a pod, by zap": ('2024-04-05T11:12:25-04:00\tDEBUG\tevents\tPod: ml.w-1 exited with code 1\t{"type": "Normal"}', "application-exception", "kubectl logs"),
    "a zone and a pod in front": ("2020-01-15 23:00:50 UTC master.0 -- ORTE was unable to reliably start one or more daemons.", "launch-failed", "mpirun"),
    "reasons that Ray only offers": (RAYLET, "process-crashed", "/tmp/ray/session_latest"),
    "Horovod's list": ("Stalled ranks:\n3!: [HorovodAllreduce_grads_0, HorovodAllreduce_grads_1 ...]", "collective-not-reached", "rank 3"),
    "an event's data": ('{"data": "gpu01:100:100 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer gpu02<4242>"}', "peer-died", "gpu02"),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "name", "word"), SAID.values(), ids=SAID)
def test_what_it_means_and_what_to_do(lines: str, name: str, word: str, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(f"{lines}\n")
    first = api.analyze(api.load([tmp_path / "run.log"])).findings[0]
    assert (first.name, word in f"{first.title} {first.next_step}") == (name, True)
    assert "segmentation fault" not in first.title


def test_an_exit_code_behind_the_crash_of_another_host_is_a_note(tmp_path: Path) -> None:
    """pdsh reports each host: those that ended for the one that crashed are no findings of their own."""
    lines = [
        "gpu01: Fatal Python error: Segmentation fault",
        "pdsh@login: gpu01: ssh exited with exit code 139",
        "pdsh@login: gpu02: ssh exited with exit code 1",
    ]
    (tmp_path / "run.log").write_text("\n".join(lines) + "\n")
    found = {f.name: f.severity for f in api.analyze(api.load([tmp_path / "run.log"])).findings}
    assert found["process-crashed"] is Severity.ERROR
    assert found.get("application-exception", Severity.INFO) is Severity.INFO
