"""What schedulers say of a job."""

from __future__ import annotations

from nccl_insight.readers.host_tools.model import Found, Output, described


def read(name: str, text: str) -> tuple[str, dict[tuple[str | None, str], str]]:
    tool = next(tool for tool in described() if tool.name == name)
    found = Found()
    said = tool.read(Output(tool, list(enumerate(text.splitlines(), 1))), found)
    return said, {(device, name): value for _, _, device, name, value, _, _ in found.facts}


def test_what_slurm_says_of_a_job() -> None:
    rows = [("JobID", "State", "ExitCode"), ("-" * 12, "-" * 10, "-" * 8)]
    rows += [("812", "FAILED", "1:0"), ("812.0", "OUT_OF_ME+", "0:125")]
    said, facts = read("sacct", "\n".join(f"{job:<12} {state:>10} {code:>8} " for job, state, code in rows))
    assert facts["job 812", "job.state"] == "FAILED"
    assert facts["job 812.0", "job.state"] == "OUT_OF_ME+"
    assert said == "812 FAILED 1:0, 812.0 OUT_OF_ME+ 0:125"


def test_a_job_and_its_node_are_told_apart() -> None:
    said, facts = read(
        "scontrol show",
        "JobId=812 JobName=train\n   JobState=FAILED Reason=NodeFail Dependency=(null)\n   ExitCode=1:0\n",
    )
    assert facts["job 812", "job.state"] == "FAILED"
    assert said.startswith("job 812; JobState FAILED; Reason NodeFail")
    _, node = read("scontrol show", "NodeName=gpu07 Arch=x86_64\n   State=DOWN Reason=Not responding\n")
    assert node["gpu07", "node.state"] == "DOWN"


def test_states_of_pods() -> None:
    said, facts = read(
        "kubectl get",
        "NAME        READY   STATUS             RESTARTS   AGE\ntrain-0     0/1     CrashLoopBackOff   5          2h\n"
        "train-1     1/1     Running            0          2h\n",
    )
    assert facts["train-0", "pod.status"] == "CrashLoopBackOff"
    assert facts["train-0", "pod.restarts"] == "5"
    assert said == "1 object CrashLoopBackOff (train-0); 1 object Running (train-1)"
