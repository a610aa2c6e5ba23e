"""lint: scripts as people write them; what must be found, on which line, and what must stay silent."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nccl_insight.advise.settings.lint.check import lint_environment, lint_text
from nccl_insight.base.errors import UsageError
from nccl_insight.base.model import Severity
from nccl_insight.inputs.spool import start_of


def found(text: str, path: str = "job.sh", version: str | None = None) -> set[tuple[int, str]]:
    """(line, name) of errors and warnings."""
    result = lint_text(path, text, version)
    return {(f.line, f.issue.name) for f in result.findings if f.severity is not Severity.INFO}


def values(text: str, path: str = "job.sh") -> dict[str, str]:
    return {s.name: s.value for s in lint_text(path, text).settings}


SBATCH = """#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --exclusive

module load cuda nccl
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=29500
export NCCL_DEBUG=WARN
export NCCL_DEBUG_FILE=/scratch/$USER/nccl.%h.%p.log
export NCCL_SOCKET_IFNAME=^docker,lo
export NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2,mlx5_3

srun --cpu-bind=none python -u train.py --config "$1"
"""
TORCHRUN = """#!/usr/bin/env bash
set -euo pipefail
export NCCL_IB_TIMEOUT=${NCCL_IB_TIMEOUT:-22}
export TORCH_NCCL_ASYNC_ERROR_HANDLING=1
NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET torchrun \\
    --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d \\
    --rdzv_endpoint="$HEAD:29400" train.py
"""
DOCKER = """docker run --rm --gpus all --ipc=host --ulimit memlock=-1 --ulimit stack=67108864 \\
  --device=/dev/infiniband -e NCCL_DEBUG=INFO -e NCCL_IB_HCA==mlx5_0 \\
  nvcr.io/nvidia/pytorch:24.07-py3 torchrun --nproc_per_node=8 train.py
"""
MPIRUN = """#!/bin/bash
export NCCL_DEBUG=INFO
mpirun -np 16 --hostfile hosts --map-by ppr:8:node -x NCCL_DEBUG -x LD_LIBRARY_PATH \\
  -x NCCL_SOCKET_IFNAME=eth0 ./build/all_reduce_perf -b 8 -e 8G -f 2 -g 1
"""
POD = """apiVersion: v1
kind: Pod
metadata:
  name: worker
spec:
  containers:
  - name: train
    image: pytorch
    command: ["torchrun", "--nproc_per_node=8", "train.py"]
    env:
    - name: NCCL_DEBUG
      value: "INFO"
    - name: NCCL_SOCKET_IFNAME
      value: eth0
    resources:
      limits:
        nvidia.com/gpu: 8
        rdma/hca: "1"
    securityContext:
      capabilities:
        add: ["IPC_LOCK"]
    volumeMounts:
    - mountPath: /dev/shm
      name: shm
  volumes:
  - name: shm
    emptyDir: {medium: Memory}
"""
DOCKERFILE = """FROM nvcr.io/nvidia/pytorch:24.07-py3
ENV NCCL_VERSION=2.22.3-1 NCCL_SOCKET_IFNAME=^docker,lo \\
    NCCL_DEBUG=WARN
CMD ["torchrun", "train.py"]
"""


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (SBATCH, "job.sbatch"), (TORCHRUN, "run.sh"), (DOCKER, "run.sh"), (MPIRUN, "run.sh"), (POD, "pod.yaml"),
        (DOCKERFILE, "Dockerfile"), ("NCCL_DEBUG=WARN\nNCCL_SOCKET_IFNAME==ens1f0\n", "/etc/nccl.conf"),
        ("import os\nos.environ['NCCL_DEBUG'] = 'INFO'\n", "train.py"), ("", "empty.sh"),
    ],
)  # fmt: skip
def test_good_scripts_are_silent(text: str, path: str) -> None:
    assert found(text, path) == set()


def test_settings_of_a_shell_script() -> None:
    text = """export A=1 NCCL_DEBUG="INFO"
NCCL_IB_SL=1
env NCCL_IB_TC=106 python x.py
declare -x NCCL_IB_TIMEOUT=22   # comment
X=eth0; export NCCL_SOCKET_IFNAME=${X},lo7
export NCCL_NET_GDR_LEVEL='SYS'
mpirun -genv NCCL_CROSS_NIC 1 ./a.out
"""
    assert values(text) == {
        "NCCL_DEBUG": "INFO", "NCCL_IB_SL": "1", "NCCL_IB_TC": "106", "NCCL_IB_TIMEOUT": "22",
        "NCCL_SOCKET_IFNAME": "eth0,lo7", "NCCL_NET_GDR_LEVEL": "SYS", "NCCL_CROSS_NIC": "1",
    }  # fmt: skip


def test_what_is_not_executed_is_said() -> None:
    result = lint_text("job.sh", "export NCCL_IB_TIMEOUT=$(cat limit)\nexport NCCL_ALGO=`which ring`\npython x.py\n")
    assert [line for line, _ in result.not_evaluated] == [1, 2]
    assert not [f for f in result.findings if f.issue.name == "env-invalid-value"]


def test_nested_scripts_are_read_with_their_lines() -> None:
    text = """docker run --gpus all --shm-size=8g img bash -c "
export NCCL_IB_DISABLE=true
torchrun train.py"
srun bash -lc 'NCCL_PROTO=Simpel python x.py'
"""
    assert {(2, "env-invalid-value"), (4, "env-invalid-value")} <= found(text)


def test_here_documents_and_echo() -> None:
    text = """echo NCCL_ALGO=Rign
cat > job.sh <<EOF
export NCCL_ALGO=Rign
EOF
python x.py
"""
    assert found(text) == {(3, "env-invalid-value")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("export NCCL_NSOCS_PERTHREAD=4\npython x.py\n", {(1, "env-unknown-name")}),
        ("export NCLL_DEBUG=INFO\npython x.py\n", {(1, "env-unknown-name")}),
        ("export NCCL_TIMEOUT=1800\npython x.py\n", {(1, "env-unknown-name")}),
        ("export NCCL_IB_CUDA_SUPPORT=1\npython x.py\n", {(1, "env-deprecated")}),
        ("export NCCL_DEBUG=debug\npython x.py\n", {(1, "env-invalid-value")}),
        ("NCCL_DEBUG=INFO\nsrun python x.py\n", {(1, "env-not-exported")}),
        ("export NCCL_DEBUG=INFO\nsrun python x.py\nexport NCCL_IB_SL=1\n", {(3, "env-set-too-late")}),
        ("#SBATCH --export=NONE\nexport NCCL_DEBUG=INFO\nsrun python x.py\n", {(1, "env-not-forwarded")}),
        ("export NCCL_DEBUG=INFO\nsrun --export=PATH python x.py\n", {(2, "env-not-forwarded")}),
        ("export NCCL_DEBUG=INFO\nmpirun -H a,b -np 2 ./x\n", {(2, "env-not-forwarded")}),
        ("export NCCL_DEBUG=INFO\ndocker run --ipc=host --gpus all img x\n", {(2, "env-not-forwarded")}),
        ("docker run --gpus all -e NCCL_DEBUG=INFO img x\n", {(1, "shm-too-small")}),
        ("docker run --gpus=2 --shm-size 8g --device /dev/infiniband img x\n", {(1, "memlock-limit")}),
        ("docker run --gpus=2 --ipc=host --privileged -v /dev/infiniband:/dev/infiniband img x\n", set()),
        ("docker run --gpus=2 --ipc=host --privileged --device /dev/infiniband img python -u x.py\n", set()),
        ("docker run --gpus=2 --ipc=host --cap-add=IPC_LOCK --device /dev/infiniband img x\n", set()),
        (
            "docker run --gpus=2 --ipc=host --cap-add IPC_LOCK -u 1000 --device /dev/infiniband img x\n",
            {(1, "memlock-limit")},
        ),
        ("ulimit -l 64\nsrun x\n", {(1, "memlock-limit")}),
        ("export NCCL_DEBUG=INFO NCCL_DEBUG_FILE=/tmp/x.log\nsrun x\n", {(1, "debug-file-shared")}),
        ("export NCCL_IB_DISABLE=1 NCCL_NET=IB\nsrun x\n", {(1, "env-contradiction")}),
        ("export NCCL_BUFFSIZE=4M\nsrun x\n", {(1, "env-invalid-value")}),
    ],
)
def test_faults_of_shell_scripts(text: str, expected: set[tuple[int, str]]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "NCCL_DEBUG=INFO\nexport NCCL_DEBUG\nsrun x\n",
        "set -a\nNCCL_DEBUG=INFO\nset +a\nsrun x\n",
        "NCCL_DEBUG=INFO\nmpirun -x NCCL_DEBUG=$NCCL_DEBUG x\n",
        "export NCCL_DEBUG=INFO\nmpirun -np 8 x\n",
        "export NCCL_DEBUG=INFO\nmpirun -H localhost:8 x\n",
        "export NCCL_DEBUG=INFO\nmpiexec -genvall -hosts a,b x\n",
        "docker run --gpus device=0 img x\n",
        "docker run --gpus '\"device=0\"' img x\n",
        "docker run $DOCKER_OPTS --gpus all img x\n",
        "docker run --gpus all --shm-size=1g --env-file nccl.env img x\n",
        "if $ROCE; then\n export NCCL_NET=IB\nelse\n export NCCL_IB_DISABLE=1\nfi\nsrun x\n",
        "f() {\n export NCCL_NET=IB\n}\ng() {\n export NCCL_IB_DISABLE=1\n}\nsrun x\n",
        "export NCCL_HOME=/opt/nccl NCCL_LIB_DIR=/opt/nccl/lib\nsrun x\n",
        "export NCCL_FASTRAK_NUM_FLOWS=2 NCCL_TUNER_CONFIG_PATH=/x\nsrun x\n",
        "#SBATCH --export=ALL\nexport NCCL_DEBUG=INFO\nsrun x\n",
        "#SBATCH --export=NONE\nexport NCCL_DEBUG=INFO\nsrun --export=ALL x\n",
        "# export NCCL_ALGO=Rign\nsrun x\n",
        "unset NCCL_ALGO\nsrun x\n",
        "export TOKEN=<YOUR_TOKEN>\nexport NCCL_DEBUG=INFO\nsrun x\n",
        "NCCL_TIMEOUT=1800\ntimeout $NCCL_TIMEOUT srun x\n",
        "nccl_v=$(cat version)\nNCCL_EXIT=$?\nsrun x; echo $NCCL_EXIT\n",
        "export NCCL_DEBUG=INFO\nsrun a\nexport NCCL_DEBUG=WARN\nsrun b\n",
    ],
)
def test_no_false_alarm(text: str) -> None:
    assert found(text) == set()


def test_kubernetes() -> None:
    text = POD.replace("      value: eth0", "      value: 1").replace("8g", "").replace("/dev/shm", "/data")
    text = text.replace('["IPC_LOCK"]', '["SYS_NICE"]')
    assert found(text, "pod.yaml") == {(14, "env-invalid-value"), (17, "shm-too-small")}
    notes = {(f.line, f.issue.name) for f in lint_text("pod.yaml", text).findings}
    assert (18, "memlock-limit") in notes  # the runtime's own limit decides


def test_yaml_in_many_forms() -> None:
    text = """services:
  a:
    environment:
      NCCL_DEBUG: INFO
      NCCL_IB_HCA: "=mlx5_0"
  b:
    environment:
      - NCCL_SOCKET_IFNAME=eth0
---
env:
  - {name: NCCL_IB_SL, value: "1"}
  - value: "22"
    name: NCCL_IB_TIMEOUT
  - name: NCCL_IB_TC
    valueFrom: {configMapKeyRef: {name: x, key: y}}
  - name: NCCL_ALGO
    value: {{ .Values.algo }}
run: |
  export NCCL_CROSS_NIC=1
  torchrun x.py
command:
- mpirun
- -x
- NCCL_NET_GDR_LEVEL=SYS
"""
    result = lint_text("x.yaml", text)
    assert {s.name: (s.value, s.line) for s in result.settings if s.complete} == {
        "NCCL_DEBUG": ("INFO", 4),
        "NCCL_IB_HCA": ("=mlx5_0", 5),
        "NCCL_SOCKET_IFNAME": ("eth0", 8),
        "NCCL_IB_SL": ("1", 11),
        "NCCL_IB_TIMEOUT": ("22", 12),
        "NCCL_CROSS_NIC": ("1", 19),
        "NCCL_NET_GDR_LEVEL": ("SYS", 24),
    }
    assert [line for line, _ in result.not_evaluated] == [14, 17]


def test_null_is_not_set() -> None:
    assert values("env:\n  NCCL_IB_TIMEOUT: null\n  NCCL_PROTO: ~\n  NCCL_DEBUG:\n", "x.yaml") == {}


def test_documents_of_a_manifest_do_not_contradict_each_other() -> None:
    text = 'env:\n- name: NCCL_NET\n  value: "IB"\n---\nenv:\n- name: NCCL_IB_DISABLE\n  value: "1"\n'
    assert found(text, "x.yaml") == set()
    assert (6, "env-contradiction") in found(text.replace("---\n", ""), "x.yaml")


def test_dockerfile_lines_and_version() -> None:
    result = lint_text("Dockerfile", DOCKERFILE.replace("WARN", "debug") + "ENV NCCL_SOCKET_FAMILY ipv4\n")
    assert result.version == "2.22.3"
    assert {(f.line, f.issue.name) for f in result.findings if f.severity is Severity.WARNING} == {
        (3, "env-invalid-value"),
        (5, "env-invalid-value"),
    }


def test_nccl_conf_is_no_shell() -> None:
    text = 'export NCCL_DEBUG=WARN\nNCCL_IB_HCA="mlx5"\n# NCCL_ALGO=Rign\n'
    assert found(text, "/etc/nccl.conf") == {(1, "env-invalid-value"), (2, "env-invalid-value")}


def test_python() -> None:
    text = """import os
os.environ["NCCL_P2P_DISABLE"] = "true"
os.environ.setdefault("NCCL_DEBUG", "INFO")
os.environ["NCCL_ALGO"] = choose()
if os.environ["NCCL_PROTO"] == "LL": pass
"""
    result = lint_text("train.py", text)
    assert {s.name: s.value for s in result.settings} == {"NCCL_P2P_DISABLE": "true", "NCCL_DEBUG": "INFO"}
    assert [line for line, _ in result.not_evaluated] == [4]
    assert found(text, "train.py") == {(2, "env-invalid-value")}


def test_the_release_decides() -> None:
    text = "export NCCL_IB_GID_INDEX=3\nsrun x\n"
    assert "env-deprecated" not in {f.issue.name for f in lint_text("x.sh", text, "2.18.3").findings}
    assert "env-deprecated" in {f.issue.name for f in lint_text("x.sh", text, "2.21.5").findings}
    assert found("export NCCL_RAS_ENABLE=0\nsrun x\n", version="2.18.3") == {(1, "env-unknown-name")}


def test_environment() -> None:
    result = lint_environment({"NCCL_SOKET_IFNAME": "eth0", "PATH": "/bin", "SECRET": "x", "NCCL_DEBUG": "INFO"})
    assert [s.name for s in result.settings] == ["NCCL_DEBUG", "NCCL_SOKET_IFNAME"]
    assert [f.issue.name for f in result.findings] == ["env-unknown-name"]


def _run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from nccl_insight.cli import main; main()", "lint", *arguments]
    environment = {"PATH": "/usr/bin:/bin", "NCCL_NSOCS_PERTHREAD": "4"}
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=60, env=environment, check=False
    )


def test_exit_codes(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.sh", tmp_path / "bad.sh"
    good.write_text(SBATCH)
    bad.write_text("export NCCL_ALGO=Rign\nsrun x\n")
    assert _run(str(good)).returncode == 0
    shown = _run(str(bad))
    assert shown.returncode == 1
    assert f"{bad}:1" in shown.stdout
    assert _run(str(bad), "--fail-on", "never").returncode == 0
    assert _run("--env").returncode == 1
    assert _run("-", stdin="hello\n").returncode == 3
    for arguments in ([], [str(tmp_path / "none.sh")], [str(good), "--fail-on", "bad"], [str(good), "--kind", "cobol"]):
        answer = _run(*arguments)
        assert answer.returncode == 2, arguments
        assert len(answer.stderr.strip().splitlines()) == 1


def test_hostile_text_is_shown_harmlessly(tmp_path: Path) -> None:
    script = tmp_path / "x.sh"
    script.write_bytes(b"export NCCL_ALGO='\x1b]0;title\x07\xff<b>'\nsrun x\n")
    shown = _run(str(script))
    assert shown.returncode == 1
    assert "\x1b" not in shown.stdout
    assert _run(str(script), "--format", "json").stdout.startswith("{")


def test_a_pipe_is_read_and_one_that_nobody_writes_to_is_told(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="nobody wrote to this pipe"):
        start_of(pipe, 100, 0)
    writer = subprocess.Popen(["sh", "-c", 'echo "export NCCL_DEBUG=INFO" > "$0"', pipe])
    assert start_of(pipe, 100, 60) == b"export NCCL_DEBUG=INFO\n"
    assert writer.wait(60) == 0


def test_every_check_is_documented() -> None:
    package = Path(__file__).parents[4] / "nccl_insight"
    documented = (package.parent / "docs" / "environment.md").read_text()
    settings = package / "advise" / "settings"
    text = "\n".join(path.read_text() for path in settings.rglob("*.py"))
    named = re.findall(r"(?m)^  name: (\S+)$", (settings / "check" / "issues.txt").read_text())
    names = {*named, *re.findall(r'(?:Issue\(\s*|return Issue\()"([a-z0-9-]+)"', text)}
    assert len(names) > 12
    assert [name for name in sorted(names) if f"`{name}`" not in documented] == []
