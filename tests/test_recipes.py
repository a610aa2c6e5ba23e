"""The job script parts, executed with stand-ins for Slurm, Kubernetes, torchrun and mpirun."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

DOCS = Path(__file__).parents[1] / "docs" / "jobs"
ROOT = Path(__file__).parents[1]
RUN = ROOT / "fixtures" / "runs"
PASS = "NCCL-INSIGHT preflight PASS - node=gpu01 action=none exit=0"
FAIL = "NCCL-INSIGHT preflight FAIL NI407 node=gpu01 action=config exit=1"

# What stands in: each command appends its arguments to the file `calls`.
STAND_INS = {
    # The gate gives the code and line of the test; everything else is the real command.
    "nccl-insight": f"""
if [ "$1" = preflight ] && [ -n "${{GATE_LINE:-}}" ]; then echo "$GATE_LINE"; exit "${{GATE_CODE:-0}}"; fi
exec {sys.executable} -m nccl_insight "$@"
""",
    # srun and mpirun run the command once for each node of the test and return the highest code.
    "srun": """
while [ "${1#-}" != "$1" ]; do shift; done
worst=0
for node in 1 2; do "$@" || { code=$?; [ "$code" -gt "$worst" ] && worst=$code; }; done
exit $worst
""",
    "mpirun": """
while [ "${1#-}" != "$1" ]; do case "$1" in --map-by|--hostfile|-x) shift 2;; *) shift;; esac; done
first=0
for node in 1 2; do "$@" || { code=$?; [ "$first" = 0 ] && first=$code; }; done
exit $first
""",
    "torchrun": 'echo "logs at $NCCL_DEBUG_FILE"; exit "${JOB_CODE:-0}"',
    "python": 'echo "logs at $NCCL_DEBUG_FILE"; exit "${JOB_CODE:-0}"',
    "scontrol": 'if [ "$1" = show ]; then printf "gpu01\\ngpu02\\n"; fi',
    "logger": "",
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with the stand-ins in ``bin``."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, body in STAND_INS.items():
        path = folder / name
        path.write_text(f'#!/bin/bash\nprintf "%s %s\\n" {name} "$*" >>"$CALLS"\n{body}\n')
        path.chmod(0o755)
    return tmp_path


def execute(place: Path, *argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=240, cwd=place, check=False,
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith(("NCCL", "SLURM", "OMPI", "PMI"))},
            "PATH": f"{place / 'bin'}:{os.environ['PATH']}", "CALLS": str(place / "calls"), "PYTHONPATH": str(ROOT),
            "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": "", **environ,
        },
    )  # fmt: skip


def calls(place: Path) -> list[str]:
    return (place / "calls").read_text().splitlines()


def job(place: Path) -> dict[str, str]:
    return {"SLURM_SUBMIT_DIR": str(place), "SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "gpu[01-02]"}


@pytest.mark.parametrize(
    ("line", "code", "status", "says"),
    [
        (PASS, "0", 0, "logs at"),
        (PASS.replace("PASS", "SKIP"), "1", 0, "judged nothing"),
        (FAIL, "10", 1, "not starting the job"),
        (FAIL, "11", 5, "a collective hangs"),
        (FAIL, "2", 1, "not starting the job"),
    ],
)
def test_slurm_batch_script(place: Path, line: str, code: str, status: int, says: str) -> None:
    done = execute(place, "bash", str(DOCS / "slurm.sbatch"), GATE_LINE=line, GATE_CODE=code, **job(place))
    assert done.returncode == status, done.stdout + done.stderr
    assert says in done.stdout + done.stderr
    ran = any(call.startswith("python train.py") for call in calls(place))
    assert ran is (status == 0)
    gates = [call for call in calls(place) if call.startswith("srun") and "preflight" in call]
    assert len(gates) == 2
    assert "--level full" in gates[1]


def test_slurm_batch_script_analyzes_a_job_that_failed(place: Path) -> None:
    logs = place / "nccl-4711.0"
    logs.mkdir()
    (logs / "nccl.gpu01.1.log").write_bytes((RUN / "healthy-16rank-ib" / "run.log").read_bytes())
    done = execute(place, "bash", str(DOCS / "slurm.sbatch"), GATE_LINE=PASS, GATE_CODE="0", JOB_CODE="9", **job(place))
    assert done.returncode == 9
    assert (logs / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("line", "code", "status"),
    [(PASS, "0", 0), (FAIL, "1", 0), (FAIL.replace("config", "isolate"), "1", 1), ("Traceback", "4", 0)],
)
def test_slurm_prolog_and_health_check(place: Path, line: str, code: str, status: int) -> None:
    """A fault of the gate drains no node; what it said is in the system's log."""
    done = execute(place, "bash", str(DOCS / "prolog.sh"), GATE_LINE=line, GATE_CODE=code)
    assert done.returncode == status
    assert f"logger -t nccl-insight -- {line}" in calls(place)


def test_slurm_prolog_with_the_real_gate(place: Path) -> None:
    """This machine has no eight GPUs; where a job chose what it sees that is no reason to drain."""
    hidden = execute(place, "bash", str(DOCS / "prolog.sh"))
    assert hidden.returncode == 0
    plain = ("env", *(f"--unset={name}_VISIBLE_DEVICES" for name in ("CUDA", "HIP", "ROCR")))
    done = execute(place, *plain, "bash", str(DOCS / "prolog.sh"))
    assert done.returncode == 1
    assert all("preflight FAIL" in call for call in calls(place) if call.startswith("logger"))


def test_slurm_epilog_writes_the_verdict_into_the_job_comment(place: Path) -> None:
    logs = place / "nccl-4711.0"
    logs.mkdir()
    (logs / "nccl.gpu01.1.log").write_bytes((RUN / "healthy-16rank-ib" / "run.log").read_bytes())
    done = execute(place, "bash", str(DOCS / "epilog.sh"), **job(place))
    assert done.returncode == 0
    (update,) = [call for call in calls(place) if call.startswith("scontrol update")]
    comment = update.partition("Comment=")[2]
    assert update.startswith("scontrol update JobId=4711 ")
    assert 10 < len(comment) < 300


def test_slurm_epilog_of_a_job_without_logs_does_nothing(place: Path) -> None:
    assert execute(place, "bash", str(DOCS / "epilog.sh"), **job(place)).returncode == 0
    assert not (place / "calls").exists()


def test_kubernetes_init_container(place: Path) -> None:
    """The command of the init container as the kubelet runs it; the pod does not start unless it ends with 0."""
    pod = yaml.safe_load((DOCS / "kubernetes.yaml").read_text())["spec"]["template"]["spec"]
    (gate,) = pod["initContainers"]
    good = execute(place, *gate["command"], GATE_LINE=PASS, GATE_CODE="0")
    assert good.returncode == 0
    real = execute(place, *gate["command"])
    assert real.returncode != 0  # no GPU here
    mounts = [m["name"] for m in gate["volumeMounts"]]
    assert mounts == ["shm"]
    (job_container,) = pod["containers"]
    started = execute(place, *job_container["command"], **{e["name"]: e["value"] for e in job_container["env"]})
    assert "logs at /logs/nccl.%h.%p.log" in started.stdout


@pytest.mark.parametrize(
    ("code", "status", "says"), [("0", 0, "logs at"), ("3", 0, "judged nothing"), ("5", 5, "hangs"), ("1", 1, "FAIL")]
)
def test_torchrun(place: Path, code: str, status: int, says: str) -> None:
    line = PASS if code in ("0", "3") else FAIL
    done = execute(place, "bash", str(DOCS / "torchrun.sh"), GATE_LINE=line, GATE_CODE=code)
    assert done.returncode == status
    assert says in done.stdout + done.stderr
    assert any(c.startswith("torchrun") for c in calls(place)) is (status == 0)


@pytest.mark.parametrize(
    ("line", "code", "status", "says"),
    [(PASS, "0", 0, "logs at"), (FAIL, "1", 1, "failed on 2 node(s)"), ("usage", "2", 2, "ended with 2")],
)
def test_mpirun(place: Path, line: str, code: str, status: int, says: str) -> None:
    done = execute(place, "bash", str(DOCS / "mpirun.sh"), GATE_LINE=line, GATE_CODE=code, HOSTFILE="hosts")
    assert done.returncode == status, done.stderr
    assert says in done.stdout + done.stderr
    assert any(c.startswith("python train.py") for c in calls(place)) is (status == 0)
    assert calls(place)[0].startswith("mpirun --hostfile hosts --map-by ppr:1:node nccl-insight preflight")


def test_the_standard_level_needs_no_address_under_a_launcher(place: Path) -> None:
    """mpirun sets no MASTER_ADDR; one node by itself needs none."""
    world = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
    second = execute(place, "nccl-insight", "preflight", "--level", "standard", **world)
    assert second.returncode == 0
    assert "leaves this node to local rank 0" in second.stderr
    first = execute(
        place, "nccl-insight", "preflight", "--level", "standard", **{**world, "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
    )
    assert first.returncode == 3  # no GPU
    assert "MASTER_ADDR" not in first.stderr
