# ruff: noqa: E501
"""``lint``: kinds of files with a syntax of their own, what reaches the ranks, and what is never run."""

from __future__ import annotations

import pytest

from nccl_insight.advise.settings.lint import lint_text
from nccl_insight.base.model import Severity

# Name of the file, its text, and what is found at warning or above: line and name.
CASES: dict[str, tuple[str, set[tuple[int, str]]]] = {
    # What is merged, written under a name with a variable in it, or started on another host
    "merged.compose.yaml": ("x-c: &c\n  ipc: host\n  environment: {NCCL_DEBUG: INFO}\nx-d: &d {gpus: all}\nservices:\n  a:\n    <<: [*c, *d]\n    image: x\n  b:\n    <<: *c\n    ipc: private\n    gpus: all\n", {(12, "shm-too-small")}),
    "seeds.sh": ("#!/bin/bash\nfor s in 1 2; do\ncat > job_$s.sbatch <<EOF\n#!/bin/bash\nexport NCCL_IB_TIMEOUT=40\nsrun python t.py --seed $s\nEOF\nsbatch job_$s.sbatch\ndone\n", {(5, "env-invalid-value")}),
    "over_ssh.py": ("import os, subprocess\nos.environ['NCCL_SOCKET_IFNAME'] = 'bond0'\nfor n, h in enumerate(hosts):\n    subprocess.Popen(['ssh', h, f'cd /job && torchrun --node_rank={n} t.py'])\n", {(4, "env-not-forwarded")}),
    "over_ssh_ok.py": ("import os, subprocess\nos.environ['NCCL_SOCKET_IFNAME'] = 'bond0'\nfor n, h in enumerate(hosts):\n    subprocess.Popen(['ssh', h, f'cd /job && {given} torchrun --node_rank={n} t.py'])\n", set()),
    # Terraform, Nomad, TOML, INI
    "main.tf": ('resource "aws_batch_job_definition" "t" {\n  environment = [\n    { name = "NCCL_DEBUG", value = "INFO" },\n    { name = "NCCL_IB_TIMEOUTT", value = "22" },\n  ]\n}\n', {(4, "env-unknown-name")}),
    "boot.tf": ('resource "google_compute_instance" "n" {\n  metadata_startup_script = <<-EOT\n    #!/bin/bash\n    export NCCL_P2P_LEVEL=nvl\n    torchrun x.py\n  EOT\n}\n', {(4, "env-invalid-value")}),
    "open.tf": ('locals {\n  NCCL_SOCKET_IFNAME = var.ifname\n  NCCL_IB_TC         = 106\n}\n', set()),
    "conf.nomad.hcl": ('job "a" {\n  template {\n    destination = "local/nccl.conf"\n    data = <<EOH\nNCCL_DEBUG=WARN\nexport NCCL_IB_HCA=mlx5_0\nEOH\n  }\n}\n', {(6, "env-invalid-value")}),
    "job.toml": ('[environment]\nNCCL_DEBUG = "WARN"\nNCCL_P2P_LEVEL = "nvl"\n', {(3, "env-invalid-value")}),
    "inline.toml": ('env = { NCCL_DEBUG = "INFO", NCCL_SOKET_IFNAME = "eth0" }\n[tool.x]\n', {(1, "env-unknown-name")}),
    "list.toml": ('[job]\nenv = ["NCCL_IB_HCA=mlx5_0,mlx5_1", "NCCL_DEBUG=VERBOSE"]\n', {(2, "env-invalid-value")}),
    "supervisor.ini": ("[program:train]\ncommand=torchrun x.py\nenvironment=NCCL_DEBUG=\"INFO\",NCCL_IB_TIMEOUT=\"99\"\n", {(3, "env-invalid-value")}),
    # Module files
    "nccl/2.28.lua": ('-- -*- lua -*-\nsetenv("NCCL_IB_HCA", "mlx5_*")\npushenv("NCCL_DEBUG", "WARN")\nsetenv("NCCL_TOPO_FILE", pathJoin(base, "t.xml"))\n', {(2, "env-invalid-value")}),
    "modulefiles/rccl/6.4": ("#%Module\nset v 6.4\nsetenv NCCL_SOCKET_IFNAME {hsn0, hsn1}\nsetenv NCCL_DEBUG WARN\n# setenv NCCL_ALGO Rng\n", {(3, "env-invalid-value")}),
    # csh and fish
    "run.csh": ("#!/bin/csh\nsetenv NCCL_DEBUG=INFO\nset NCCL_IB_HCA=mlx5_0\nif ( $#argv > 0 ) then\n  setenv NCCL_P2P_LEVEL nvl\nendif\nsrun a\n", {(2, "env-invalid-value"), (3, "env-not-exported"), (5, "env-invalid-value")}),
    "apart.csh": ("#!/bin/csh\nset NCCL_SOCKET_IFNAME = ib0\nsrun a\n", {(2, "env-not-exported")}),
    "export.csh": ("#!/bin/tcsh\nexport NCCL_DEBUG=INFO\nsrun a\n", {(2, "env-not-exported")}),
    "fishlike.sh": ("#!/bin/bash\nset -x\nset -x NCCL_P2P_LEVEL \"NVL\"\nset -- NCCL_DEBUG=INFO \"$@\"\nsrun a\n", {(3, "env-not-exported")}),
    "setenv.sh": ("#!/bin/bash\nsetenv NCCL_DEBUG INFO\nsrun a\n", {(2, "env-not-exported")}),
    "a.fish": ("#!/usr/bin/env fish\nset -gx NCCL_SOCKET_IFNAME (ip -br addr | head -1)\nset -gx NCCL_DEBUG=INFO\nset NCCL_IB_HCA mlx5_0\nfor i in 1 2\n  set -x NCCL_IB_SL 3\nend\ntorchrun a.py\n", {(3, "env-invalid-value"), (4, "env-not-exported")}),
    "kinds.sh": ("#!/bin/bash\nexport NCCL_IB_HCA=eth0\nexport NCCL_SOCKET_IFNAME=mlx5_0,mlx5_1\nexport NCCL_SOCKET_IFNAME=10.0.0.7\nsrun a\n", {(2, "env-invalid-value"), (3, "env-invalid-value"), (4, "env-invalid-value")}),
    "kinds_ok.sh": ("#!/bin/bash\nexport NCCL_IB_HCA=^eth0\nexport NCCL_IB_HCA=ib0,ibp12s0,mlx5_bond_0\nexport NCCL_SOCKET_IFNAME=rdma0,ib0,ens\nsrun a\n", set()),
    "whole.sh": ("#!/bin/bash\nexport \"NCCL_DEBUG=INOF\" 'NCCL_IB_SL=1M'\nsrun a\n", {(2, "env-invalid-value")}),
    "read.sbatch": ("#!/bin/bash\n#SBATCH -N 4\nread -r -d '' CMD <<'EOF'\nset -e\nexport NCCL_SOCKT_IFNAME=ib0\ntorchrun a.py\nEOF\nsrun bash -c \"$CMD\"\n", {(5, "env-unknown-name")}),
    "kept.sbatch": ("#!/bin/bash\n#SBATCH -N 4\nCMD=\"\nexport NCCL_SOCKT_IFNAME=ib0\ntorchrun a.py\n\"\nsrun bash -c \"$CMD\"\n", {(4, "env-unknown-name")}),
    # make and just
    "Makefile": ("export NCCL_IB_HCA = mlx5_0   # rail 0\nNCCL_DEBUG = INFO\nrun:\n\texport NCCL_IB_SL=1; ./all_reduce_perf -g 8\n\texport NCCL_IB_TC=106\n\t./all_reduce_perf -g 8\n", {(1, "env-invalid-value"), (2, "env-not-exported"), (5, "env-not-exported")}),
    "ok.mk": (".ONESHELL:\nexport NCCL_DEBUG := WARN\nNP := 8\nrun:\n\tset -e; export NCCL_SOCKET_IFNAME=eth0\n\t./all_reduce_perf -g $(NP)\n\techo $$HOME\n", set()),
    "justfile": ("export NCCL_P2P_LEVEL := \"nvl\"\nrun n:\n    export NCCL_DEBUG=INFO\n    torchrun --nproc-per-node {{n}} a.py\n", {(1, "env-invalid-value"), (3, "env-not-exported")}),
    # Jenkins, GitHub, GitLab, notebooks
    "Jenkinsfile": ("pipeline {\n  environment { NCCL_DEBUG = 'INFO'; NCCL_IB_TIMOUT = '22' }\n  stages {\n    sh 'export NCCL_ALGO=Ring'\n    sh '''\n      export NCCL_PROTO=LL64\n      torchrun a.py\n    '''\n  }\n}\n", {(2, "env-unknown-name"), (4, "env-not-exported"), (6, "env-invalid-value")}),
    "steps.yml": ("jobs:\n  a:\n    steps:\n    - run: export NCCL_DEBUG=INFO\n    - run: |\n        export NCCL_IB_SL=1\n        torchrun a.py\n    - run: echo NCCL_P2P_LEVEL=nvl >> $GITHUB_ENV\n", {(4, "env-not-exported"), (8, "env-invalid-value")}),
    ".gitlab-ci.yml": ("variables:\n  NCCL_DEBUG: WARN\na:\n  before_script: [export NCCL_IB_SL=1]\n  script:\n  - export NCCL_IB_TC=106\n  - torchrun a.py\n", set()),
    "a.ipynb": ('{"cells": [\n {"cell_type": "code", "source": ["!export NCCL_DEBUG=INFO\\n",\n  "%env NCCL_P2P_LEVEL=nvl\\n",\n  "!torchrun a.py"]},\n {"cell_type": "markdown", "source": ["export NCCL_ALGO=Rng"]},\n {"cell_type": "code", "source": ["%%bash\\n",\n  "export NCCL_IB_SL=1\\n",\n  "torchrun a.py"]},\n {"cell_type": "code", "source": ["import os\\n",\n  "os.environ[\'NCCL_IB_TC\'] = 106"]}\n]}\n', {(2, "env-not-exported"), (3, "env-invalid-value"), (10, "env-invalid-value")}),
    # Processes and shared memory that do not fit
    "asked.sh": ("#!/bin/bash\n#SBATCH --nodes=2 --gres=gpu:h100:4\n#SBATCH --ntasks-per-node=8\nexport NCCL_DEBUG=INFO\nsrun python t.py\n", {(5, "gpu-isolation")}),
    "fits.sh": ("#!/bin/bash\n#SBATCH --nodes=2 --gpus-per-node=8\n#SBATCH --ntasks-per-node=1\nexport NCCL_DEBUG=INFO\nsrun torchrun --nproc-per-node=8 t.py\n", set()),
    "pod.yaml": ("kind: Pod\nspec:\n  containers:\n  - name: t\n    command: [torchrun, --nproc_per_node=8, t.py]\n    env: [{name: NCCL_DEBUG, value: INFO}]\n    resources: {limits: {nvidia.com/gpu: 2}}\n    volumeMounts: [{mountPath: /dev/shm, name: shm}]\n", {(5, "gpu-isolation")}),
    "shm.yaml": ("services:\n  w:\n    shm_size: 64mb\n    environment: [NCCL_DEBUG=INFO]\n    command: torchrun --nproc_per_node 8 t.py\n", {(3, "shm-too-small")}),
    "shm.sh": ("export NCCL_DEBUG=WARN\ndocker run --gpus all --shm-size=64m -e NCCL_DEBUG img torchrun t.py\n", {(2, "shm-too-small")}),
    "net.sh": ("export NCCL_DEBUG=WARN\nexport NCCL_NET=Infiniband\nexport NCCL_IB_HCA='mlx5_0:1;mlx5_1:1'\nexport NCCL_IB_HCA='mlx5_0:1:mlx5_1:1'\n", {(2, "env-invalid-value"), (3, "env-invalid-value"), (4, "env-invalid-value")}),
    # Settings inside one value
    "env_list.sh": ('mpirun -np 16 -H a:8,b:8 --mca mca_base_env_list "NCCL_DEBUG=WARN;NCCL_IB_TIMEOT=22" ./x\n', {(1, "env-unknown-name")}),
    "export_list.sh": ("srun -N2 --export=ALL,NCCL_IB_HCA=mlx5_0,mlx5_1,HOME ./x\n", {(1, "env-invalid-value")}),
    "export_subsys.sh": ("srun -N2 --export=ALL,NCCL_DEBUG=INFO,NCCL_DEBUG_SUBSYS=INIT,NET ./x\n", {(1, "env-invalid-value")}),
    "export_ok.sh": ("srun -N2 --export=ALL,NCCL_DEBUG=INFO,PATH,HOME ./x\n", set()),
    "v.pbs": ("#!/bin/bash\n#PBS -v NCCL_DEBUG=INFO,NCCL_IB_HCA=mlx5_0,mlx5_1 -l select=2\nmpiexec -n 16 ./a\n", {(2, "env-invalid-value")}),
    "env.lsf": ('#!/bin/bash\n#BSUB -env "all, NCCL_DEBUG=INFO, NCCL_P2P_LEVEL=nvl"\njsrun -n 8 ./a\n', {(2, "env-invalid-value")}),
    "qsub.sh": ("qsub -v NCCL_DEBUG=INFO,NCCL_SOCKT_IFNAME=ib0 job.pbs\n", {(1, "env-unknown-name")}),
    "x.sh": ("torchx run -s kubernetes dist.ddp -j 4x8 --env NCCL_DEBUG=INFO,NCCL_P2P_LEVEL=nvl --script a.py\n", {(1, "env-invalid-value")}),
    "ray.sh": ("ray job submit --runtime-env-json='{\"env_vars\": {\"NCCL_DEBUG\": \"INFO\", \"NCCL_IB_SL\": 1}}' -- python a.py\n", {(1, "env-invalid-value")}),
    "options.yaml": ("docker:\n  run_options:\n  - --env=NCCL_P2P_LEVEL=nvl\n  - -e NCCL_DEBUG=INFO\n", {(3, "env-invalid-value")}),
    # What a container, a kept text or another variable hands on
    "held.sbatch": ("#!/bin/bash\nAPPTAINERENV_NCCL_IB_TC=106\nsrun apptainer exec a.sif python t.py\n", {(2, "env-not-exported")}),
    "later.sbatch": ("#!/bin/bash\nAPPTAINERENV_NCCL_IB_TC=106\nexport APPTAINERENV_NCCL_IB_TC NCCL_DEBUG=WARN\nsrun apptainer exec a.sif python t.py\n", set()),
    "handed.sh": ("mpirun -np 8 -x SINGULARITYENV_NCCL_P2P_LEVEL=nvl singularity exec a.sif python t.py\n", {(1, "env-invalid-value")}),
    "kept_text.sh": ("part=$(cat <<EOF\necho $1\nexport NCCL_DEBUG=LOUD\npython t.py\nEOF\n)\nsrun bash -c \"$part\"\n", {(3, "env-invalid-value")}),
    "put.sh": ("mpirun -np 8 -x FI_PROVIDER=$FI_PROVIDOR -x FI_EFA_USE_DEVICE_RDMA=${EFA_RDMA} python t.py\n", {(1, "env-unknown-name")}),
    "put_known.sh": ("FI_PROVIDOR=efa\nmpirun -np 8 -x FI_PROVIDER=$FI_PROVIDOR python t.py\n", set()),
    "module.yaml": ("additional_args:\n  - -e CCL_SOCKET_IFNAME=hsn\n  - -e CCL_ATL_TRANSPORT=mpi\n", {(2, "env-unknown-name")}),
    "spec.py": ("spec = Container(env=[{'name': 'NCCL_DEBUG', 'value': 'LOUD'}, {'name': 'NCCL_IB_SL', 'value': sl}])\n", {(1, "env-invalid-value")}),
    # Files that a script writes
    "conf.sh": ("cat > /etc/nccl.conf <<'EOF'\nNCCL_DEBUG=WARN\nNCCL_SOCKET_IFNAME=$IFACE\nexport NCCL_IB_SL=1\nEOF\n", {(3, "env-invalid-value"), (4, "env-invalid-value")}),
    "conf_filled.sh": ("IFACE=eth0\nsudo tee /etc/nccl.conf > /dev/null <<EOF\nNCCL_SOCKET_IFNAME=$IFACE\nEOF\n", set()),
    "echo.sh": ('echo "NCCL_P2P_LEVEL=nvl" >> /etc/nccl.conf\necho "NCCL_ALGO=Rng" > notes.txt\n', {(1, "env-invalid-value")}),
    "apply.sh": ("kubectl apply -f - <<EOF\nkind: Pod\nspec:\n  containers:\n  - env:\n    - name: NCCL_IB_SL\n      value: 1\nEOF\n", {(7, "env-invalid-value")}),
    "batch.sh": ("cat <<'EOF' > job.sbatch\n#!/bin/bash\n#SBATCH --nodes=2\nexport NCCL_DEBUG=INFOO\nsrun a\nEOF\nsbatch job.sbatch\n", {(4, "env-invalid-value")}),
    "cloud.yaml": ("write_files:\n- path: /etc/nccl.conf\n  content: |\n    NCCL_IB_HCA='mlx5_0'\n", {(4, "env-invalid-value")}),
    # What reaches the ranks
    "opaque.sh": ('export NCCL_DEBUG=INFO\ndocker run $OPTS --gpus all image torchrun a.py\n', set()),
    "docker_args.sh": ('export NCCL_IB_HCA=mlx5_0\ndocker run --rm --gpus all --ipc=host -v "$PWD":/w "$IMAGE" torchrun a.py "$@"\n', {(2, "env-not-forwarded")}),
    "exec.sh": ("export NCCL_IB_HCA=mlx5_0\ndocker exec train torchrun a.py\n", {(2, "env-not-forwarded")}),
    "exec_e.sh": ("export NCCL_IB_HCA=mlx5_0\ndocker exec -e NCCL_IB_HCA train torchrun a.py\n", set()),
    "kube.sh": ("export NCCL_IB_HCA=mlx5_0\nkubectl exec -it pod-0 -- bash -c 'NCCL_IB_HCA=mlx5_0 torchrun a.py'\n", set()),
    "perf.sh": ("export NCCL_IB_HCA=mlx5_0\nsrun apptainer exec --nv -B /a:/b $IMG all_reduce_perf -b 8 -e 1G\n", set()),
    "bound.sh": ("export NCCL_IB_HCA=mlx5_0\napptainer exec -B -e -B /a -C a.sif torchrun a.py\n", {(2, "env-not-forwarded")}),
    "clean.sh": ("export NCCL_IB_HCA=mlx5_0\nsingularity exec --nv -e a.sif torchrun a.py\n", {(2, "env-not-forwarded")}),
    "ds.sh": ("export NCCL_DEBUG=WARN TORCH_NCCL_ASYNC_ERROR_HANDLING=1\ndeepspeed --hostfile hosts a.py\n", {(2, "env-not-forwarded")}),
    "ds_one.sh": ("export FI_PROVIDER=efa\ndeepspeed --num_gpus 8 a.py\n", set()),
    "quotes.sh": ("DEV=mlx5_0\nsrun bash -c 'export NCCL_IB_HCA=$DEV; python a.py'\n", {(2, "env-invalid-value")}),
    "quotes_exported.sh": ("export DEV=mlx5_0\nsrun bash -c 'export NCCL_IB_HCA=$DEV; python a.py'\n", set()),
    "remote.sh": ("export DEV=mlx5_0\nssh node2 'NCCL_IB_HCA=$DEV torchrun a.py'\n", {(2, "env-invalid-value")}),
    "double.sh": ('DEV=mlx5_0\nssh node2 "NCCL_IB_HCA=$DEV torchrun a.py"\n', set()),
    "sub.sh": ("(export NCCL_IB_HCA=mlx5_0; torchrun a.py)\n( cd /x; export NCCL_DEBUG=INFO )\ntorchrun b.py\n", {(2, "env-not-exported")}),
    "child.py": ("import os, subprocess\nos.environ['NCCL_IB_HCA'] = 'mlx5_0'\nsubprocess.run(['torchrun', 'a.py'], env={'PATH': '/bin'})\n", {(3, "env-not-forwarded")}),
    "system.py": ("import os\nos.system('export NCCL_DEBUG=INFO')\nos.system('NCCL_ALGO=Rng torchrun a.py')\n", {(2, "env-not-exported"), (3, "env-invalid-value")}),
    "decorated.py": ("@task(environment={'NCCL_P2P_LEVEL': 'nvl'})\ndef f():\n    pass\n", {(1, "env-invalid-value")}),
    "task_prolog.sh": ("#!/bin/bash\nexport NCCL_DEBUG=INFO\necho export NCCL_P2P_LEVEL=nvl\n", {(2, "env-not-forwarded"), (3, "env-invalid-value")}),
    # What nothing runs, and where it is called
    "dead.sh": ("off() {\n  export NCCL_IB_DISABLE=yes\n}\nif false; then\n  export NCCL_ALGO=Rng\nelse\n  export NCCL_PROTO=LL64\nfi\ntorchrun a.py\n", {(7, "env-invalid-value")}),
    "exit.sh": ("torchrun a.py\nexit 0\nexport NCCL_ALGO=Rng\n", set()),
    "maybe_exit.sh": ('[ -z "$1" ] && { echo usage; exit 1; }\nexport NCCL_ALGO=Rng\ntorchrun a.py\n', {(2, "env-invalid-value")}),
    "called.sh": ("setup() {\n  export NCCL_ALGO=Rng\n  export NCCL_DEBUG=INFO\n}\nsetup\ntorchrun a.py\n", {(2, "env-invalid-value")}),
    "late_call.sh": ("function setup {\n  export NCCL_DEBUG=INFO\n}\ntorchrun a.py\nsetup\n", {(2, "env-set-too-late")}),
    "library.sh": ("nccl_env() {\n  export NCCL_ALGO=Rng\n}\n", {(2, "env-invalid-value")}),
    "dispatch.sh": ("tune() { export NCCL_ALGO=Rng; }\nbench() { torchrun a.py; }\n\"$@\"\n", {(1, "env-invalid-value")}),
    "help.sh": ("usage() {\n  cat <<EOF\n  export NCCL_ALGO=Rng\nEOF\n}\nusage\ntorchrun a.py\n", set()),
    "windows.sh": ("#!/bin/bash\r\nexport NCCL_DEBUG=WARN\r\ntorchrun a.py\r\n", {(2, "env-invalid-value")}),
    "windows.yaml": ("env:\r\n  NCCL_DEBUG: WARN\r\n", set()),
    # One node or several
    "lo_one.sh": ("export NCCL_SOCKET_IFNAME=lo\ntorchrun --standalone --nproc-per-node 8 a.py\n", set()),
    "lo_two.sbatch": ("#!/bin/bash\n#SBATCH -N 2\nexport NCCL_SOCKET_IFNAME=lo\nsrun a\n", {(3, "ifname-wrong")}),
    "lo_hosts.sh": ("export NCCL_SOCKET_IFNAME=lo\nmpirun -H a:8,b:8 -x NCCL_SOCKET_IFNAME ./a\n", {(1, "ifname-wrong")}),
    # Names and values
    "plugin.sh": ("export NCCL_NET_PLUGIN=libnccl-net-aws\nexport NCCL_TUNER_PLUGIN=/opt/x/libnccl-tuner.so\ntorchrun a.py\n", {(1, "env-invalid-value")}),
    "tilde.sh": ("export NCCL_DEBUG=INFO NCCL_DEBUG_FILE='~/%h.%p.log' NCCL_TOPO_FILE=$HOME/t.xml\ntorchrun a.py\n", {(1, "env-invalid-value")}),
    "hca_range.sh": ("export NCCL_IB_HCA=mlx5_[0-3]\ntorchrun a.py\n", {(1, "env-invalid-value")}),
    "short.sh": ("export NCCL_IB_QPS_PER_CONN=4\ntorchrun a.py\n", {(1, "env-unknown-name")}),
    "etc/environment": ("NCCL_SOCKET_IFNAME=$DEV\nNCCL_DEBUG=\"WARN\"\n", {(1, "env-invalid-value")}),
    # Not ours: not judged
    "main.rs": ("let x = env(\"NCCL_DEBUG = INFO\");\n", set()),
    "notes.md": ("Set NCCL_ALGO=Rng and export NCCL_DEBUG = INFO.\n", set()),
    "script.awk": ("#!/usr/bin/awk -f\nBEGIN { NCCL_DEBUG=INFOO }\n", set()),
    # Programs that write into their environment
    "script.pl": ("#!/usr/bin/perl\n$ENV{NCCL_DEBUG} = 'INFOO';\nmy $level = $ENV{NCCL_ALGO};\n", {(2, "env-invalid-value")}),
    "tool.go": ('// os.Setenv("NCCL_ALGO", "Rng")\nos.Setenv("NCCL_DEBUG", "INFOO")\n', {(2, "env-invalid-value")}),
    "bench.cc": ('setenv("NCCL_DEBUG", "INFOO", 1);\nif (getenv("NCCL_ALGO") == "Rng") {}\n', {(1, "env-invalid-value")}),
    # Text that a program hands to a shell
    "setup.py": ("X = f\'\'\'\nexport NCCL_IB_HCA={hca}\nexport NCCL_ALGO=Rng\n\'\'\'\n", {(3, "env-invalid-value")}),
    "doc.py": ('"""Use it so:\n\nexport NCCL_ALGO=Rng\n"""\n', set()),
    "array.sh": ('A=(\n  -x NCCL_DEBUG=INFO # all\n  "NCCL_ALGO=Rng"\n)\nmpirun "${A[@]}" ./a\n', {(3, "env-invalid-value")}),
    "kept.sh": ('A="-x NCCL_DEBUG=INFO -x NCCL_ALGO=Rng"\nmpirun $A ./a\n', {(1, "env-invalid-value")}),
    "printf.sh": ("printf '%s\\n' NCCL_DEBUG=INFO NCCL_ALGO=Rng | sudo tee /etc/nccl.conf\n", {(2, "env-invalid-value")}),
    # Arithmetic is no function and no subshell: what follows is run
    "arith.sh": ("if (( $# < 1 )); then\n  exit 1\nfi\nfor ((i=0; i<2; i++)); do :; done\nexport NCCL_ALGO=Rng\ntorchrun a.py\n", {(5, "env-invalid-value")}),
    # Commands and JSON within words
    "subst.sh": ("OUT=$(NCCL_DEBUG=INFOO ./a 2>&1)\necho \"$(grep -c 'NCCL_DEBUGG' a.log)\"\n", {(1, "env-invalid-value")}),
    "json.sh": ("J=\"{\n  \\\"env_vars\\\": {\\\"NCCL_ALGO\\\": \\\"Rng\\\", \\\"NCCL_IB_HCA\\\": \\\"$HCA\\\"}}\"\nray job submit --runtime-env-json=\"$J\" -- a\n", {(2, "env-invalid-value")}),
    "cat.sh": ("J=$(cat <<EOF\n{\"env_vars\": {\n \"NCCL_IB_SL\": 3}}\nEOF\n)\nray job submit --runtime-env-json=\"$J\" -- a\n", {(3, "env-invalid-value")}),
    "nested.sh": ("srun bash -c '\ndocker run -e NCCL_DEBUG img bash -lxc \"cd /x && \\\n  export NCCL_ALGO=Rng && ./a\"\n'\n", {(3, "env-invalid-value")}),
    "command.sh": ("run=\"NCCL_ALGO=Rng torchrun $ARGS\"\neval $run\n", {(1, "env-invalid-value")}),
    "bazel.sh": ("A=(--test_output=all \"--action_env=NCCL_DEBUG=INFOO\")\nbazel test \"${A[@]}\"\n", {(1, "env-invalid-value")}),
    # Names that are passed on or looked at
    "names.sh": ("for n in HF_HOME NCCL_IB_HAC; do A+=(-x $n); done\nmpirun -x NCCL_BUFSIZE -x MY_NCCL_X \"${A[@]}\" a\necho NCCL_DEBUGG ${NCCL_DEBUGGG}\n", {(1, "env-unknown-name"), (2, "env-unknown-name")}),
    "own.sh": ("NCCL_DEBUGG=x\n./a $NCCL_DEBUGG\nread NCCL_HOME\n", set()),
    "prefix.sh": ("export TORCH_NCL_DUMP_ON_TIMEOUT=1\nexport HCCL_DEBUG=1\ntorchrun a.py\n", {(1, "env-unknown-name")}),
    "null.yaml": ("env_vars:\n  NCCL_TOPO_FIL: null\n  NCCL_TOPO_FILE: null\n  NCCL_NTHREDS: [256, 512]\n", {(2, "env-unknown-name"), (4, "env-unknown-name")}),
    # One node, and GPUs of AMD
    "one.sh": ("export NNODES=${NNODES:-1}\nexport NCCL_SOCKET_IFNAME=lo\ntorchrun --nnodes=$NNODES a.py\n", set()),
    "two.sh": ("export NNODES=2\nexport NCCL_SOCKET_IFNAME=lo\ntorchrun --nnodes=$NNODES a.py\n", {(2, "ifname-wrong")}),
    "rccl.sh": ("export ROCM_HOME=/opt/rocm\nexport NCCL_DEBUG=ERROR\n./a\n", set()),
    # What takes variables away, and what starts nothing
    "flux.sh": ("export NCCL_IB_SL=1 FOO=2\nflux run -N2 --env-remove='NCCL_*' ./a\n", {(2, "env-not-forwarded")}),
    "pals.sh": ("export NCCL_IB_SL=1\nmpiexec -n 8 --envnone ./a\nmpiexec -n 8 --env NCCL_IB_SL=1 --envnone ./a\n", {(2, "env-not-forwarded")}),
    "stop.sh": ("export NCCL_IB_SL=1\nssh a 'pkill -9 python; rm -rf /tmp/x'\n", set()),
    # Operators that mount shared memory by themselves, and volumes that are too small
    "raycluster.yaml": ("apiVersion: ray.io/v1\nspec:\n  containers:\n  - image: i\n    resources: {limits: {nvidia.com/gpu: 8}}\n", set()),
    "nim.yaml": ("kind: NIMService\nspec:\n  image: {repository: i}\n  resources: {limits: {nvidia.com/gpu: 8}}\n  env: [{name: NCCL_DEBUG, value: WARN}]\n", set()),
    "small.yaml": ("spec:\n  containers:\n  - resources: {limits: {nvidia.com/gpu: 8}}\n    volumeMounts: [{mountPath: /dev/shm, name: s}]\n  volumes:\n  - name: s\n    emptyDir: {medium: Memory, sizeLimit: 64Mi}\n", {(7, "shm-too-small")}),
    # Values as NCCL compares them
    "blank.conf": ("NCCL_DEBUG=INFO\n", set()),
    "etc/nccl.conf": ("NCCL_DEBUG= INFO\nNCCL_IB_HCA=/dev/infiniband/uverbs0\nNCCL_DEBUG_SUBSYS=INIT, NET\nNCCL_IB_SL=99999999999999999999\n", {(1, "env-invalid-value"), (2, "env-invalid-value"), (3, "env-invalid-value"), (4, "env-invalid-value")}),
    "list.sh": ("export NCCL_IB_HCA=mlx5_0 mlx5_1\nexport NCCL_DEBUG=INFO NCCL_IB_SL\ntorchrun a.py\n", {(1, "env-invalid-value")}),
    "module.tcl": ("#%Module\nset NCCL_IB_SL 1\nset root /x\nsetenv NCCL_DEBUG INFO\n", {(2, "env-not-exported")}),
    # Templates and comments
    "t.yaml-template": ("# c\n" * 4000 + "env:\n- {name: NCCL_ALGO, value: Rng}\n- {name: A, value: ${A}}\n", {(4002, "env-invalid-value")}),
    "Dockerfile.commented": ("FROM a\nENV A=1 \\\n# why\n    NCCL_ALGO=Rng\n", {(4, "env-invalid-value")}),
    "assoc.sh": ("declare -A E=([NCCL_DEBUG]=INFO [NCCL_ALGO]=Rng)\n: \"${NCCL_P2P_LEVEL:=nvl}\"\nexport NCCL_P2P_LEVEL\ntorchrun a.py\n", {(1, "env-invalid-value"), (2, "env-invalid-value")}),
    "hydra.yaml": ("launcher:\n  setup:\n  - export NCCL_ALGO=Rng\n  - export NCCL_DEBUG=INFO\n", {(3, "env-invalid-value")}),
    "cloud-list.yaml": ("runcmd:\n- [sh, -c, \"echo NCCL_IB_SL=x >> /etc/environment\"]\n", {(2, "env-invalid-value")}),
    "main.nf": ("process A {\n  beforeScript 'export NCCL_IB_SL=1'\n  script:\n  \"\"\"\n  NCCL_ALGO=Rng torchrun a.py\n  \"\"\"\n}\n", {(5, "env-invalid-value")}),
    "Snakefile": ("rule a:\n    shell: \"NCCL_ALGO=Rng torchrun a.py\"\n", {(2, "env-invalid-value")}),
    "fstring.py": ("import sys\ncmd = f\"NCCL_ALGO=Rng torchrun {sys.argv[1]}\"\nprint(\"NCCL_DEBUGG=INFO\")\n", {(2, "env-invalid-value")}),
    # Each command has settings of its own; prose and variables of a build are none
    "own_each.sh": ("NCCL_P2P_LEVEL=NVL ./a\nNCCL_P2P_DISABLE=1 ./a\nX=$(NCCL_P2P_LEVEL=NVL ./a)\n", set()),
    "together.sh": ("export NCCL_P2P_DISABLE=1\nNCCL_P2P_LEVEL=NVL ./a\n", {(2, "env-contradiction")}),
    "form.yaml": ("body:\n- attributes:\n    description: |\n      Set `NCCL_DEBUGG=INFO` before the run.\n", set()),
    "version.mk": ("NCCL_MAJOR := 2\nNCCL_SUFFIX :=\nNCCLX_TUNER_CONFIG_FILE = a\n", set()),
    "config.py": ("E = {'NCCL_IB_SL': 3, 'NCCL_ALGO': 'Rng'}\nC.setdefault('nccl_debug', 'ERROR')\nos.environ.update({k: str(v) for k, v in E.items()})\n", {(1, "env-invalid-value")}),
    "taken.py": ("run(env_vars={'NCCL_IB_SL': 3})\nimage.env({'NCCL_IB_TC': 3})\nos.environ.update({'NCCL_CROSS_NIC': 1})\n", {(1, "env-invalid-value"), (2, "env-invalid-value"), (3, "env-invalid-value")}),
    "app.def": ("Bootstrap: docker\nFrom: x\n%post\nexport NCCL_ALGO=Rng\n%environment\nexport NCCL_DEBUG=INFOO\n", {(4, "env-invalid-value"), (4, "env-not-exported"), (6, "env-invalid-value")}),
    "envs.yml": ("with:\n  ENVS: |\n    NCCL_BUFFSIZE=8MB;\n    NCCL_IB_TC=106;\n  run: |\n    export NCCL_IB_SL=3\n", {(3, "env-invalid-value"), (6, "env-not-exported")}),
    "run.ps1": ('[Environment]::SetEnvironmentVariable("NCCL_SOCKET_FAMILY", "IPv4")\n', {(1, "env-invalid-value")}),
    "run.rs": ('c.envs([("NCCL_DEBUG", "INFO"), ("NCCL_BUFFSIZE", "8M")]);\nlog("NCCL_BUFFSIZE", "8M");\n', {(1, "env-invalid-value")}),
    "play.sh": ("cat <<E | podman kube play -\nenv: [{name: NCCL_DEBUG, value: INFOO}]\nE\n", {(2, "env-invalid-value")}),
    "says.py": ("print('NCCL_DEBUG=INFOO would be wrong')\nlog.info(f'try NCCL_DEBUG=INFOO {x}')\n", set()),
    "job.oar": ("#OAR -l host=2\nexport NCCL_IB_TC=106\noarsh n1 'torchrun t.py'\noarsh n1 NCCL_IB_TC=106 torchrun t.py\n", {(3, "env-not-forwarded")}),
    "gnu.sh": ("export NCCL_IB_TC=106\nparallel --slf nodes --env NCCL_DEBUG 'torchrun t.py'\nparallel 'torchrun t.py' ::: a b\n", {(2, "env-not-forwarded")}),
    "pjm.sh": ("#PJM -x NCCL_DEBUG=INFO,NCCL_IB_TIMEOT=22\n#COBALT --env NCCL_DEBUG=INFO:NCCL_P2P_LEVL=NVL\nmpirun ./train\n", {(1, "env-unknown-name"), (2, "env-unknown-name")}),
    "pm2.config.js": ("env: {\n  NCCL_BUFFSIZ: 8388608,\n  NCCL_PROTO: 'Simple,LL 128',\n}\nlog(NCCL_X ? NCCL_BUFFSIZ : 0)\n", {(2, "env-unknown-name"), (3, "env-invalid-value")}),
    "main.go": ('cmd.Env = append(os.Environ(), "NCCL_IB_DISABLE=yes")\nlog.Printf("set "+\n"NCCL_IB_DISABLE=%d to try, or"+ "NCCL_IB_DISABLE=1.")\n', {(1, "env-invalid-value")}),
    "block.tf": ('environment = [{ name = "NCCL_PROTO", value = "Simple,LL 128" }]\n', {(1, "env-invalid-value")}),
    "fabfile.py": ("c.run('NCCL_DEBUG=INFOO torchrun t.py')\ncmd = shlex.split(f'mpirun -np {n} -x NCCL_BUFFSIZ=4 ./train')\n", {(1, "env-invalid-value"), (2, "env-unknown-name")}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_found(name: str) -> None:
    text, expected = CASES[name]
    result = lint_text(name, text)
    assert {(f.line, f.issue.name) for f in result.findings if f.severity is not Severity.INFO} == expected


@pytest.mark.parametrize("name", ["main.rs", "notes.md", "script.awk"])
def test_unknown_kinds_are_not_judged(name: str) -> None:
    assert not lint_text(name, CASES[name][0]).judged


NOTES = {
    "amd.sbatch": ("#!/bin/bash\n#SBATCH --gres=gpu:mi300x:8\nexport NCCL_NVLS_ENABLE=1\nsrun a\n", (3, "env-other-machine")),
    "nvidia.sbatch": ("#!/bin/bash\n#SBATCH --gres=gpu:h200:8\nexport RCCL_MSCCL_ENABLE=1\nsrun a\n", (3, "env-other-machine")),
    "topology.sh": ("# DGX\n#SBATCH --constraint=b200\nexport NCCL_TOPO_FILE=/opt/h100-topo.xml\nsrun a\n", (3, "env-other-machine")),
    "bind.sbatch": ("#!/bin/bash\n#SBATCH --gpus-per-task=1\nexport NCCL_DEBUG=INFO\nsrun a\n", (2, "gpu-isolation")),
    "pod.yaml": ("kind: Pod\nspec:\n  containers:\n  - env:\n    - {name: NCCL_SOCKET_IFNAME, value: bond0}\n", (5, "ifname-not-found")),
    "unused.sh": ("off() {\n  export NCCL_IB_DISABLE=yes\n}\ntorchrun a.py\n", (2, "env-invalid-value")),
}  # fmt: skip


@pytest.mark.parametrize("name", NOTES)
def test_notes(name: str) -> None:
    text, expected = NOTES[name]
    found = {(f.line, f.issue.name): f.severity for f in lint_text(name, text).findings}
    assert found[expected] is Severity.INFO
