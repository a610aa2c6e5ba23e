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
    "PBS, a signal": ("Exit_status=271", "job-ended-by-scheduler", "tracejob"),
    "PBS, a limit": ("    Exit_status = -29", "job-ended-by-scheduler", "-29 for wall time"),
    "SageMaker's reason": ('AlgorithmError: ExecuteUserScriptError: Command "python3.6 -m launch" Traceback (most recent call last): File "launch.py", line 42, in <module> ValueError: no data', "application-exception", "TrainingJobs"),
    "an event's data": ('{"data": "gpu01:100:100 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer gpu02<4242>"}', "peer-died", "gpu02"),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "name", "word"), SAID.values(), ids=SAID)
def test_what_it_means_and_what_to_do(lines: str, name: str, word: str, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(f"{lines}\n")
    first = api.analyze(api.load([tmp_path / "run.log"])).findings[0]
    assert (first.name, word in f"{first.title} {first.next_step}") == (name, True)
    assert "segmentation fault" not in first.title


EVENTS = "LAST SEEN   TYPE      REASON      OBJECT      MESSAGE\n"
BESIDE = {
    "a probe while it came up": "33m  Warning   Unhealthy   pod/w-1      Readiness probe failed: dial tcp 10.0.0.5:8080: connect: connection refused",
    "the end of its container": "1m   Normal    Killing     pod/w-1      Stopping container trainer",
    "another pod": "33m  Warning   Evicted     pod/web-5d9f      The node was low on resource: memory. Container web was using 2Gi, request is 0.",
    "a sidecar": "39m  Warning   BackOff     pod/w-1      Back-off restarting failed container sidecar in pod w-1_ml(uid)",
}  # fmt: skip


@pytest.mark.parametrize("event", BESIDE.values(), ids=BESIDE)
def test_events_beside_a_job_that_is_through_are_no_failure(event: str, tmp_path: Path) -> None:
    (tmp_path / "events.txt").write_text(f"{EVENTS}{event}\n")
    lines = [
        "w-1:55:55 [0] NCCL INFO ncclCommInitRank comm 0x5591aa rank 0 nranks 1 cudaDev 0 busId 1b000 commId 0x7e - Init COMPLETE",
        "step 543 | loss 3.0440 | lr 3.0e-04 | 12000 ms/step",
        "{'train_runtime': 8123.4, 'train_samples_per_second': 41.2, 'train_loss': 2.17, 'epoch': 1.0}",
    ]
    (tmp_path / "w-1.log").write_text("\n".join(lines) + "\n")
    assert not [f.title for f in api.analyze(api.load([tmp_path])).findings if f.severity is Severity.ERROR]


def test_who_a_probe_ended_is_the_pod_and_not_its_container(tmp_path: Path) -> None:
    event = "3m11s  Normal  Killing  pod/w-7  Container trainer failed liveness probe, will be restarted"
    (tmp_path / "events.txt").write_text(f"{EVENTS}{event}\n")
    assert api.analyze(api.load([tmp_path])).findings[0].hosts == ("w-7",)


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
