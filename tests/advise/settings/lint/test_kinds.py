# ruff: noqa: E501
"""Launch scripts and configuration of many kinds: what is wrong is found in its line, what is right stays silent."""

from __future__ import annotations

import json

import pytest

from nccl_insight.advise.settings.lint import lint_text
from nccl_insight.advise.settings.lint.kinds import kind_of
from nccl_insight.base.model import Severity
from nccl_insight.report import lint_report

CASES = {
    "family_slip.sh": ("#!/bin/bash\nexport NCCL_TUNER_PLUGINS=libx.so\nexport RCCL_MSCCL_ENABEL=0\nexport NCCL_TUNER_SITE_TABLE=/x\nsrun x\n", {(2, "env-unknown-name"), (3, "env-unknown-name")}),
    "rccl_channels.sh": ("#!/bin/bash\nexport NCCL_MIN_NCHANNELS=112\nexport NCCL_MAX_NCHANNELS=300\nsrun x\n", {(3, "env-invalid-value")}),
    "srun_nodes.sh": ("#!/bin/bash\nexport MASTER_ADDR=localhost\nsrun --nodes=4 --ntasks-per-node=8 python x.py\n", {(2, "separate-jobs")}),
    "srun_one_node.sh": ("#!/bin/bash\nexport MASTER_ADDR=localhost\nsrun -N 1 --ntasks-per-node=8 python x.py\n", set()),
    "forwarded_by_loop.sh": ("#!/bin/bash\nNCCL_BUFFSIZE=8388608\nfor n in NCCL_IB_HCA \\\n  NCCL_BUFFSIZE; do\n  args+=(-x \"$n=${!n}\")\ndone\nmpirun \"${args[@]}\" -np 8 ./all_reduce_perf\n", set()),
    "mpijob_lost.yaml": ("kind: MPIJob\nspec:\n  mpiReplicaSpecs:\n    Launcher:\n      template:\n        spec:\n          containers:\n          - env:\n            - {name: NCCL_IB_HCA, value: mlx5}\n            command: [mpirun, -np, \"16\", ./all_reduce_perf]\n    Worker: {template: {spec: {containers: [{image: x}]}}}\n", {(9, "env-not-forwarded")}),
    "mpijob_passed.yaml": ("kind: MPIJob\nspec:\n  mpiReplicaSpecs:\n    Launcher:\n      template:\n        spec:\n          containers:\n          - env:\n            - {name: NCCL_IB_HCA, value: mlx5}\n            command: [mpirun, -np, \"16\", -x, NCCL_IB_HCA, ./all_reduce_perf]\n    Worker: {template: {spec: {containers: [{image: x}]}}}\n", set()),
    "mpijob_hydra.yaml": ("kind: MPIJob\nspec:\n  mpiImplementation: Intel\n  mpiReplicaSpecs:\n    Launcher:\n      template:\n        spec:\n          containers:\n          - env:\n            - {name: NCCL_IB_HCA, value: mlx5}\n            command: [mpirun, -np, \"16\", ./all_reduce_perf]\n    Worker: {template: {spec: {containers: [{image: x}]}}}\n", set()),
    "minicluster.yaml": ("kind: MiniCluster\nspec:\n  containers:\n  - image: a\n    environment: {FI_PROVIDER: efa}\n    volumes: {shm: {emptyDir: true, emptyDirMedium: memory}}\n    resources: {limits: {nvidia.com/gpu: 8}}\n", set()),
    "quadlet.container": ("[Container]\nImage=a\nEnvironment=NCCL_DEBUG=INFO NCCL_IB_TIMEOUT=99\n", {(3, "env-invalid-value")}),
    "train.service": ("[Service]\nEnvironment=\"NCCL_SOCKET_IFNAME=eth*\"\nEnvironment=NCCL_DEBUG=INFO\nExecStart=/usr/bin/torchrun x.py\n", {(2, "env-invalid-value")}),
    "sky.yaml": ("resources: {accelerators: H100:8}\nnum_nodes: 2\nenvs:\n  NCCL_DEBUG: INFO\n  NCCL_P2P_LEVEL: nvl\nrun: |\n  torchrun --nnodes=$SKYPILOT_NUM_NODES x.py\n", {(5, "env-invalid-value")}),
    "playbook.yml": ("- hosts: gpu\n  tasks:\n  - command: torchrun x.py\n    environment:\n      NCCL_ALGO: Rng\n", {(5, "env-invalid-value")}),
    "workflow.yml": ("jobs:\n  t:\n    env:\n      NCCL_DEBUG: INFO\n    steps:\n    - run: |\n        export NCCL_BUFFSIZE=8M\n        ./build/all_reduce_perf -g 8\n", {(7, "env-invalid-value")}),
    "volcano.yaml": ("kind: Job\nspec:\n  tasks:\n  - name: w\n    template:\n      spec:\n        containers:\n        - env:\n          - name: NCCL_IB_HCA\n            value: \"mlx5_0, mlx5_1\"\n          resources:\n            limits:\n              nvidia.com/gpu: '8'\n", {(10, "env-invalid-value"), (13, "shm-too-small")}),
    "jobset.yaml": ("spec:\n  replicatedJobs:\n  - template:\n      spec:\n        template:\n          spec:\n            hostIPC: true\n            containers:\n            - resources: {limits: {nvidia.com/gpu: 8}}\n              env: [{name: NCCL_DEBUG, value: INFO}]\n", set()),
    "rayjob.yaml": ("spec:\n  runtimeEnvYAML: |\n    env_vars:\n      NCCL_DEBUG: INFO\n  rayClusterSpec: {}\n", set()),
    "configmap.yaml": ("kind: ConfigMap\ndata:\n  nccl.conf: |\n    NCCL_DEBUG=INFO\n    NCCL_IB_HCA=\"mlx5\"\n  NCCL_IB_GID_INDEX: three\n", {(5, "env-invalid-value"), (6, "env-invalid-value")}),
    "loop.yaml": ("a: &a\n  b: *a\n  NCCL_DEBUG: INFOO\n", {(3, "env-invalid-value")}),
    "two.yaml": ("NCCL_DEBUG: INFO\n---\nfoo: [\n---\nNCCL_DEBUG: INFOO\n", {(5, "env-invalid-value")}),
    "pytorchjob.yaml": ("spec:\n  pytorchReplicaSpecs:\n    Master:\n      env: [{name: NCCL_PROTO, value: LL}]\n    Worker:\n      env: [{name: NCCL_PROTO, value: Simple}]\n", {(4, "env-mismatch")}),
    "pytorchjob_ok.yaml": ("spec:\n  pytorchReplicaSpecs:\n    Master:\n      env: [{name: NCCL_SOCKET_IFNAME, value: eth0}]\n    Worker:\n      env: [{name: NCCL_SOCKET_IFNAME, value: eth1}]\n", set()),
    "gpus.compose.yaml": ("services:\n  a:\n    image: x\n    gpus: all\n    environment: {NCCL_IB_DISABLE: true}\n", {(4, "shm-too-small"), (5, "env-invalid-value")}),
    "one_gpu.compose.yaml": ("services:\n  a:\n    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]}}}\n    environment: {NCCL_DEBUG: INFO}\n", set()),
    "ipc.compose.yaml": ("services:\n  a:\n    ipc: host\n    gpus: all\n    environment: {NCCL_IB_TIMEOUT: 22}\n", set()),
    "efa.yaml": ("spec:\n  containers:\n  - resources: {limits: {nvidia.com/gpu: 1, vpc.amazonaws.com/efa: 1}}\n    env: [{name: FI_PROVIDER, value: efa}, {name: NCCL_DEBUG, value: WARN}]\n", set()),
    "nemo.yaml": ("defaults: [_self_]\nstages: [training]\nenv_vars:\n  NCCL_NVLS_ENABLE: 0\n  NCCL_DEBUG: INFO\n", set()),
    "runtime_env.yaml": ("pip: [torch]\nenv_vars:\n  NCCL_NVLS_ENABLE: 0\n", {(3, "env-invalid-value")}),
    "serve.yaml": ("applications:\n- name: a\n  runtime_env:\n    env_vars:\n      NCCL_NVLS_ENABLE: 0\n", {(5, "env-invalid-value")}),
    "sharp.sh": ("export NCCL_ALGO=CollnetChain NCCL_COLLNET_ENABLE=1\nmpirun -x NCCL_ALGO /opt/nccl-tests/build/all_reduce_perf -b 1G\n", set()),
    "sharp_all.sh": ("export NCCL_ALGO=CollnetChain NCCL_COLLNET_ENABLE=1\nmpirun -x NCCL_ALGO -x NCCL_COLLNET_ENABLE /b/all_gather_perf -b 1G\n", {(1, "algorithm-unavailable")}),
    "accelerate_ok.yaml": ("num_machines: 1\nmain_process_ip: localhost\nnum_processes: 8\n", set()),
    "values.yaml": ("env:\n  NCCL_DEBUG: {{ .Values.debug }}\n{{- if .Values.ib }}\n  NCCL_IB_HCA: =mlx5\n{{- end }}\n  NCCL_NTHREADS: 300\n", {(6, "env-invalid-value")}),
    "device.json": ('{"containerEnv": {"NCCL_DEBUG": "INFO",\n "NCCL_IB_TIMEOUT": "2O"}}', {(2, "env-invalid-value")}),
    "login.sh": ("#!/bin/bash\nexport NCCL_IB_HCA=mlx5_0\nsu - user -c 'torchrun x.py'\n", {(3, "env-not-forwarded")}),
    "clean_env.sh": ("#!/bin/bash\nexport NCCL_IB_HCA=mlx5_0\nenv -i PATH=$PATH torchrun x.py\n", {(3, "env-not-forwarded")}),
    "sudo_keeps.sh": ("#!/bin/bash\nexport NCCL_IB_HCA=mlx5_0\nsudo -E torchrun x.py\n", set()),
    "pdsh.sh": ("#!/bin/bash\nexport NCCL_NET_GDR_LEVEL=PHB\npdsh -w node[1-4] torchrun --nproc-per-node 8 x.py\n", {(3, "env-not-forwarded")}),
    "ssh_script.sh": ("#!/bin/bash\nexport NCCL_NET_GDR_LEVEL=PHB\nssh node2 bash /shared/launch.sh\n", set()),
    "ssh_passes.sh": ("#!/bin/bash\nexport NCCL_IB_HCA=mlx5_0\nssh node2 NCCL_IB_HCA=$NCCL_IB_HCA torchrun x.py\n", set()),
    "ssh_other.sh": ("#!/bin/bash\nexport NCCL_IB_HCA=mlx5_0\nssh node2 nvidia-smi\nsrun x\n", set()),
    "local_rdzv.sh": ("#!/bin/bash\ntorchrun --nnodes 4 --rdzv-endpoint=127.0.0.1:29500 --nproc-per-node 8 x.py\n", {(2, "separate-jobs")}),
    "first_node.sh": ("#!/bin/bash\ntorchrun --nnodes 2 --node-rank=0 --master-addr=127.0.0.1 --nproc-per-node 8 x.py\n", set()),
    "no_such_port.sh": ("#!/bin/bash\nexport MASTER_PORT=129500\ntorchrun --nnodes 2 --rdzv-endpoint=$HEAD:$MASTER_PORT x.py\n", {(2, "env-invalid-value")}),
    "no_such_port_option.sh": ("#!/bin/bash\ntorchrun --nnodes 2 --rdzv-endpoint=$HEAD:70000 x.py\n", {(2, "env-invalid-value")}),
    "last_port.sh": ("#!/bin/bash\nexport MASTER_PORT=$((10000 + RANDOM))\ntorchrun --nnodes 2 --master-port 65535 --master-addr=$HEAD x.py\n", set()),
    "one_node_rdzv.sh": ("#!/bin/bash\nexport MASTER_ADDR=localhost\ntorchrun --nnodes 1 --rdzv-endpoint=localhost:0 x.py\n", set()),
    "gpus_hidden.sh": ("#!/bin/bash\nexport CUDA_VISIBLE_DEVICES=0,1\ntorchrun --nproc_per_node=4 x.py\n", {(2, "gpu-isolation")}),
    "gpus_fit.sh": ("#!/bin/bash\nexport CUDA_VISIBLE_DEVICES=0,1,2,3\ntorchrun --nproc_per_node=4 x.py\n", set()),
    "blanks.sh": ("#!/bin/bash\nNCCL_DEBUG = INFO\nexport NCCL_IB_TIMEOUT= 22\nsrun x\n", {(2, "env-invalid-value"), (3, "env-invalid-value")}),
    "pbs.pbs": ("#!/bin/bash\n#PBS -l select=2\nexport NCCL_CROSS_NIC=3\nmpiexec -n 16 ./a\n", {(3, "env-invalid-value")}),
    "inspector.sh": ("#!/bin/bash\nexport NCCL_INSPECTOR_ENABLE=1\nexport NCCL_PROFILER_PLUGIN=/x/libnccl-profiler-inspector.so\nsrun x\n", {(2, "inspector-silent")}),
    "inspector_off.sh": ("#!/bin/bash\nexport NCCL_INSPECTOR_DUMP_DIR=/x\nsrun x\n", {(2, "inspector-silent")}),
    "inspector_ok.sh": ("#!/bin/bash\nexport NCCL_INSPECTOR_ENABLE=1 NCCL_PROFILER_PLUGIN=/x/i.so\nexport NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS=1000000\nsrun x\n", set()),
    "lists.sh": ("#!/bin/bash\nexport NCCL_SOCKET_IFNAME=^docker,^lo\nexport NCCL_IB_HCA=^=mlx5_0,mlx5_1\nsrun x\n", {(2, "env-invalid-value")}),
    "torch.sh": ("#!/bin/bash\nexport TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=ten\ntorchrun x.py\n", {(2, "env-invalid-value")}),
    "Dockerfile": ("FROM a\nRUN export NCCL_DEBUG=INFO && make\nRUN NCCL_HOME=/x make\nRUN export NCCL_ROOT=/x && cmake .. && make\nENV NCCL_IB_SL 9x\n", {(2, "env-not-exported"), (5, "env-invalid-value")}),
    ".deepspeed_env": ("NCCL_IB_HCA=mlx5_0 # rail\nNCCL_DEBUG=INFO\n", {(1, "env-invalid-value")}),
    "late.py": ("import os, torch\ntorch.distributed.init_process_group('nccl')\nos.environ['NCCL_IB_HCA'] = 'mlx5'\n", {(3, "env-set-too-late")}),
    "late_in_main.py": ("import os\ndef main():\n    dist.init_process_group()\n    os.putenv('NCCL_DEBUG', 'INFO')\n", {(4, "env-set-too-late")}),
    "other_function.py": ("import os\ndef a():\n    dist.init_process_group()\ndef b():\n    os.environ['NCCL_DEBUG'] = 'INFO'\n", set()),
    "popen.py": ("import os, subprocess\nenv = os.environ.copy()\nenv['NCCL_PROTO'] = 'LL64'\nsubprocess.Popen(['torchrun'], env={**env, 'NCCL_IB_SL': 1})\n", {(3, "env-invalid-value"), (4, "env-invalid-value")}),
    "old.py": ("import os\nprint 'x'\nos.environ['NCCL_ALGO'] = 'Rng'\n", {(3, "env-invalid-value")}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_found(name: str) -> None:
    text, expected = CASES[name]
    result = lint_text(name, text)
    loud = {(f.line, f.issue.name) for f in result.findings if f.severity is not Severity.INFO}
    assert loud == expected


def test_what_nccl_will_print() -> None:
    def prints(text: str) -> str:
        return "; ".join(lint_text("x.sh", f"#!/bin/bash\n{text}\nsrun x\n").prints)

    assert "prints nothing" in prints("true")
    assert "warnings only" in prints("export NCCL_DEBUG=WARN")
    assert "need NCCL_DEBUG_SUBSYS" in prints("export NCCL_DEBUG=INFO")
    assert "not ENV, NET, GRAPH" in prints("export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL")
    assert "a file for each process" in prints("export NCCL_DEBUG=INFO NCCL_DEBUG_FILE=/x/n.%h.%p")
    assert prints("if x; then export NCCL_DEBUG=INFO; fi") == ""


def test_sarif() -> None:
    result = lint_text("dir/a b.sh", "#!/bin/bash\nexport NCCL_ALGO=Rng\nsrun x\n")
    document = json.loads(lint_report.render_sarif([result]))
    assert document["version"] == "2.1.0"
    first = next(r for r in document["runs"][0]["results"] if r["ruleId"] == "env-invalid-value")
    assert first["level"] == "error"
    place = first["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "dir/a%20b.sh"}, "region": {"startLine": 2}}
    assert document["runs"][0]["tool"]["driver"]["rules"][first["ruleIndex"]]["id"] == "env-invalid-value"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.yaml", "a: " + "[" * 200_000), ("x.yaml", "- " * 100_000), ("x.yaml", "{{" * 50_000), ("x.yaml", "--- a\n" * 20_000),
        ("x.yaml", "--- [\n" * 20_000), ("x.yaml", "\n".join(" " * i + "a:" for i in range(1000))),
        ("x.py", "x=" + "(" * 50_000), ("x.py", "x=" + "-" * 15_000 + "1"), ("x.py", "x=" + "[" * 90 + "]" * 90),
        ("x.sh", "export NCCL_DEBUG=INFO\nsudo torchrun x\n" * 3000),
    ],
    ids=range(10),
)  # fmt: skip
def test_hostile_nesting_ends(name: str, text: str) -> None:
    assert lint_text(name, text).path == name


def test_text_for_people_sets_nothing() -> None:
    text = (
        'variable "x" {\n  description = "sets NCCL_P2P_DISABLE=1 NCCL_DEBUGG=INFO"\n}\n'
        'resource "a" "b" {\n  env = { NCCL_DEBUG = "INFO" }\n}\n'
    )
    result = lint_text("variables.tf", text)
    assert [(s.name, s.value) for s in result.settings] == [("NCCL_DEBUG", "INFO")]
    assert result.count(Severity.WARNING) == 0


@pytest.mark.parametrize(("program", "loud"), [("all_reduce_perf -b 8 -e 8G", 0), ("torchrun train.py", 1)])
def test_a_benchmark_may_leave_only_the_network(program: str, loud: int) -> None:
    text = f"export NCCL_P2P_DISABLE=1\nexport NCCL_SHM_DISABLE=1\nsrun {program}\n"
    assert lint_text("run.sh", text).count(Severity.WARNING) == loud


def test_in_a_list_of_tests_the_program_named_last_counts() -> None:
    text = (
        '[{"binary": "broadcast_perf", "env": {"NCCL_PROTO": "Simple"}},\n'
        ' {"binary": "all_reduce_perf", "env": {"NCCL_ALGO": "CollNetDirect"}}]\n'
    )
    assert lint_text("tests.json", text).count(Severity.WARNING) == 0
    turned = text.replace("all_reduce", "x").replace("broadcast", "all_reduce").replace("x_perf", "broadcast_perf")
    assert lint_text("tests.json", turned).count(Severity.WARNING) == 1


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        ("Dockerfile.train", "", "dockerfile"), ("a/b.yml", "", "yaml"), ("x.py", "", "python"),
        (".env", "", "env-file"),
        ("nccl.conf", "", "nccl.conf"), ("job", "#!/bin/bash\n", "shell"), ("job", "#!/usr/bin/python3\n", "python"),
        ("x", "apiVersion: v1\nkind: Pod\n", "yaml"), ("x", "# c\nFROM a\n", "dockerfile"), ("x.sbatch", "", "shell"),
    ],
)  # fmt: skip
def test_kinds(path: str, text: str, kind: str) -> None:
    assert kind_of(path, text) == kind


def test_settings_of_two_blocks_do_not_meet() -> None:
    def text(first: str, second: str) -> str:
        one, other = '      NCCL_CUMEM_ENABLE = "0"', '      NCCL_MNNVL_ENABLE = "1"'
        return f'locals {{\n  shapes = {{\n    "a" = {{\n{one}{first}\n{other}{second}\n    }}\n  }}\n}}\n'

    def found(source: str) -> list[str]:
        return [f.issue.variable for f in lint_text("main.tf", source).findings if f.severity is not Severity.INFO]

    assert found(text("", "")) == ["NCCL_MNNVL_ENABLE"]
    assert found(text('\n    }\n    "b" = {', "")) == []
    env = 'env {{\n name = "{}"\n value = "{}"\n}}\n'
    named = env.format("NCCL_CUMEM_ENABLE", "0") + env.format("NCCL_MNNVL_ENABLE", "1")
    assert found(f"container {{\n{named}}}\n") == ["NCCL_MNNVL_ENABLE"]
    assert (
        found(
            f"container {{\n{env.format('NCCL_CUMEM_ENABLE', '0')}}}\ncontainer {{\n{env.format('NCCL_MNNVL_ENABLE', '1')}}}\n"
        )
        == []
    )
