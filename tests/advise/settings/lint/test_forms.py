# ruff: noqa: E501
"""Two settings in every form of file that starts or configures jobs: wrong ones are found, right ones are not."""

from __future__ import annotations

import pytest

from nccl_insight.advise.settings.lint import lint_text
from nccl_insight.base.model import Severity

# Name <N> with value <V>, name <M> with value <W>.
FORMS = {
    "ansible/site.yml": "- hosts: gpu\n  tasks:\n    - ansible.builtin.blockinfile:\n        path: /etc/profile.d/nccl.sh\n        block: |\n          export <N>=<V>\n    - ansible.builtin.lineinfile:\n        path: /etc/environment\n        line: <M>=<W>\n",
    "htcondor/train.sub": 'universe = vanilla\nexecutable = run.sh\nrequest_gpus = 8\nenvironment = "<N>=<V> <M>=<W>"\nqueue 1\n',
    "cloudinit/user-data.yaml": '#cloud-config\nwrite_files:\n  - path: /etc/nccl.conf\n    permissions: "0644"\n    content: |\n      <N>=<V>\n      <M>=<W>\nruncmd:\n  - systemctl restart docker\n',
    "gitlab/.gitlab-ci.yml": 'stages: [bench]\nvariables:\n  <N>: "<V>"\nbench:\n  stage: bench\n  script:\n    - export <M>=<W>\n    - torchrun --nproc-per-node 8 bench.py\n',
    "circle/config.yml": 'version: 2.1\njobs:\n  bench:\n    machine: true\n    environment:\n      <N>: "<V>"\n    steps:\n      - run:\n          name: all-reduce\n          environment:\n            <M>: "<W>"\n          command: mpirun -np 8 all_reduce_perf\n',
    "buildkite/pipeline.yml": 'steps:\n  - label: nccl\n    command: ./bench.sh\n    env:\n      <N>: "<V>"\n      <M>: "<W>"\n',
    "azurepipe/azure-pipelines.yml": 'jobs:\n- job: bench\n  variables:\n    <N>: "<V>"\n  steps:\n  - script: torchrun --nproc-per-node 8 bench.py\n    env:\n      <M>: "<W>"\n',
    "singularity/train.def": 'Bootstrap: docker\nFrom: nvcr.io/nvidia/pytorch:25.01-py3\n\n%environment\n    export <N>=<V>\n    export <M>=<W>\n\n%runscript\n    exec python train.py "$@"\n',
    "conda/environment.yml": 'name: train\ndependencies:\n  - python=3.11\n  - pytorch\nvariables:\n  <N>: "<V>"\n  <M>: <W>\n',
    "nextflow/nextflow.config": "process.executor = 'slurm'\nenv {\n    <N> = '<V>'\n    <M> = '<W>'\n}\n",
    "snakemake/Snakefile": 'rule train:\n    output: "model.pt"\n    shell:\n        """\n        export <N>=<V>\n        export <M>=<W>\n        torchrun --nproc-per-node 8 train.py\n        """\n',
    "vscode/launch.json": '{\n  // debug eight ranks\n  "version": "0.2.0",\n  "configurations": [\n    {\n      "name": "train",\n      "type": "debugpy",\n      "request": "launch",\n      "module": "torch.distributed.run",\n      "env": {"<N>": "<V>", "<M>": "<W>"},\n    }\n  ]\n}\n',
    "pixi/pixi.toml": '[project]\nname = "train"\n\n[activation.env]\n<N> = "<V>"\n<M> = "<W>"\n\n[tasks]\ntrain = "torchrun --nproc-per-node 8 train.py"\n',
    "mise/mise.toml": '[env]\n<N> = "<V>"\n<M> = "<W>"\n',
    "supervisor/vllm.conf": '[program:vllm]\ncommand=vllm serve meta-llama/Llama-3.1-70B --tensor-parallel-size 8\nenvironment=<N>="<V>",<M>="<W>"\nautorestart=true\n',
    "task/Taskfile.yml": 'version: "3"\nenv:\n  <N>: "<V>"\ntasks:\n  train:\n    env:\n      <M>: "<W>"\n    cmds:\n      - torchrun --nproc-per-node 8 train.py\n',
    "kustomize/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nconfigMapGenerator:\n  - name: nccl-env\n    literals:\n      - <N>=<V>\n      - <M>=<W>\n",
    "kfp/pipeline.py": 'from kfp import dsl\n\n@dsl.pipeline(name="train")\ndef pipeline():\n    task = train_op()\n    task.set_env_variable(name="<N>", value="<V>")\n    task.set_env_variable("<M>", "<W>")\n',
    "metaflow/flow.py": 'from metaflow import FlowSpec, environment, step, torchrun\n\nclass Train(FlowSpec):\n    @environment(vars={"<N>": "<V>", "<M>": "<W>"})\n    @step\n    def train(self):\n        self.next(self.end)\n',
    "submitit/launch.py": 'import submitit\n\nexecutor = submitit.AutoExecutor(folder="logs")\nexecutor.update_parameters(\n    nodes=2,\n    gpus_per_node=8,\n    slurm_setup=["export <N>=<V>", "export <M>=<W>"],\n)\nexecutor.submit(train)\n',
    "parsl/site.py": 'from parsl.config import Config\nfrom parsl.executors import HighThroughputExecutor\nfrom parsl.providers import SlurmProvider\n\nconfig = Config(executors=[HighThroughputExecutor(provider=SlurmProvider(\n    partition="gpu",\n    worker_init="""\nmodule load cuda\nexport <N>=<V>\nexport <M>=<W>\n""",\n))])\n',
    "tmux/run.sh": '#!/bin/bash\ntmux new-session -d -s w0\ntmux send-keys -t w0 "export <N>=<V>; export <M>=<W>; torchrun --nproc-per-node 8 train.py" C-m\n',
    "genv/intel.sh": "#!/bin/bash\nmpirun -n 16 -ppn 8 -hosts gpu01,gpu02 -genv <N> <V> -genv <M>=<W> ./all_reduce_perf -b 8 -e 8G\n",
    "pals/run.pbs": "#!/bin/bash\n#PBS -l select=2\nmpiexec -n 8 --ppn 4 --env <N>=<V> --env <M>=<W> ./train\n",
    "jsrun/run.lsf": "#!/bin/bash\n#BSUB -nnodes 2\njsrun -n 12 -a 1 -g 1 -E <N>=<V> -E <M>=<W> python train.py\n",
    "aprun/run.sh": "#!/bin/bash\naprun -n 8 -N 4 -e <N>=<V> -e <M>=<W> ./train\n",
    "ecs/taskdef.json": '{\n  "family": "train",\n  "containerDefinitions": [\n    {"name": "main", "image": "train:1",\n     "environment": [\n       {"name": "<N>", "value": "<V>"},\n       {"name": "<M>", "value": "<W>"}\n     ]}\n  ]\n}\n',
    "gcpbatch/job.json": '{\n  "taskGroups": [\n    {"taskSpec": {\n      "environment": {"variables": {"<N>": "<V>", "<M>": "<W>"}},\n      "runnables": [{"script": {"text": "torchrun train.py"}}]\n    }}\n  ]\n}\n',
    "cfn/batch.yaml": 'AWSTemplateFormatVersion: "2010-09-09"\nResources:\n  Job:\n    Type: AWS::Batch::JobDefinition\n    Properties:\n      ContainerProperties:\n        Environment:\n          - Name: <N>\n            Value: "<V>"\n          - Name: <M>\n            Value: !Sub "<W>"\n',
    "dstack/.dstack.yml": "type: task\nname: train\nnodes: 2\nenv:\n  - <N>=<V>\n  - <M>=<W>\ncommands:\n  - torchrun --nproc-per-node 8 train.py\n",
    "dropin/override.conf": '[Service]\nEnvironment="<N>=<V>" "<M>=<W>"\n',
    "profile.d/nccl.sh": '# site defaults\nexport <N>="<V>"\nexport <M>="<W>"\n',
    "array/run.sh": '#!/bin/bash\nENVS=(\n  <N>=<V>\n  "<M>=<W>"\n)\nenv "${ENVS[@]}" torchrun --nproc-per-node 8 train.py\n',
    "array2/run.sh": '#!/bin/bash\nARGS="-x <N>=<V> -x <M>=<W>"\nmpirun -np 16 -H gpu01:8,gpu02:8 $ARGS ./all_reduce_perf\n',
    "puppet/nccl.pp": "file { '/etc/nccl.conf':\n  ensure  => file,\n  content => \"<N>=<V>\\n<M>=<W>\\n\",\n}\n",
    "salt/nccl.sls": "/etc/nccl.conf:\n  file.managed:\n    - contents: |\n        <N>=<V>\n        <M>=<W>\n",
    "j2/nccl.conf.j2": "# {{ ansible_managed }}\n<N>=<V>\n{% if nvlink %}\n<M>=<W>\n{% endif %}\n",
    "ruby/launch.rb": 'ENV["<N>"] = "<V>"\nENV["<M>"] = "<W>"\nexec "torchrun --nproc-per-node 8 train.py"\n',
    "perl/launch.pl": "#!/usr/bin/perl\n$ENV{<N>} = \"<V>\";\n$ENV{'<M>'} = '<W>';\nsystem(\"torchrun train.py\");\n",
    "pwsh/launch.ps1": '$env:<N> = "<V>"\n$env:<M> = "<W>"\ntorchrun --nproc-per-node 8 train.py\n',
    "nix/shell.nix": '{ pkgs ? import <nixpkgs> {} }:\npkgs.mkShell {\n  <N> = "<V>";\n  <M> = "<W>";\n}\n',
    "bake/docker-bake.hcl": 'target "train" {\n  args = {\n    <N> = "<V>"\n    <M> = "<W>"\n  }\n}\n',
    "composeext/compose.yaml": 'x-nccl: &nccl\n  <N>: "<V>"\n  <M>: <W>\nservices:\n  a:\n    image: train\n    shm_size: 8g\n    environment:\n      <<: *nccl\n',
    "hydra/job.yaml": 'hydra:\n  job:\n    env_set:\n      <N>: "<V>"\n      <M>: <W>\n',
    "skaffold/devcontainer.json": '{\n  "image": "nvcr.io/nvidia/pytorch:25.01-py3",\n  "containerEnv": {"<N>": "<V>"},\n  "remoteEnv": {"<M>": "<W>"}\n}\n',
    "tox/tox.ini": "[testenv]\nsetenv =\n    <N> = <V>\n    <M> = <W>\ncommands = pytest\n",
    "pytest/pyproject.toml": '[tool.pytest.ini_options]\nenv = ["<N>=<V>", "<M>=<W>"]\n',
    "awk/launch.sh": "#!/bin/sh\nprintf '%s\\n' '<N>=<V>' '<M>=<W>' | sudo tee -a /etc/nccl.conf\n",
    "sedi/launch.sh": "#!/bin/sh\necho \"<N>=<V>\" >> /etc/environment\necho '<M>=<W>' >> ~/.nccl.conf\n",
    "conda2/run.sh": "#!/bin/bash\nconda env config vars set <N>=<V> <M>=<W>\n",
    "kubectlset/run.sh": "#!/bin/bash\nkubectl set env deployment/vllm <N>=<V> <M>=<W>\nhelm upgrade vllm ./chart --set env.<N>=<V> --set-string env.<M>=<W>\n",
    "podman/run.sh": '#!/bin/bash\npodman run --rm --gpus all --shm-size 8g --env=<N>=<V> -e "<M>=<W>" img python train.py\n',
    "singrun/run.sh": "#!/bin/bash\nexport SINGULARITYENV_<N>=<V>\nexport APPTAINERENV_<M>=<W>\napptainer exec --nv img.sif python train.py\n",
    "singenv/run.sh": "#!/bin/bash\napptainer exec --nv --env <N>=<V>,<M>=<W> img.sif python train.py\n",
    "pyxis/run.sh": "#!/bin/bash\nexport <N>=<V> <M>=<W>\nsrun -N 2 --ntasks-per-node 8 --container-image img --container-env=<N>,<M> python train.py\n",
    "psub/job.py": 'import subprocess\nsubprocess.run("<N>=<V> <M>=<W> torchrun --nproc-per-node 8 train.py", shell=True, check=True)\n',
    "psub2/job.py": 'import os, subprocess\nenv = os.environ.copy()\nenv.update(<N>="<V>", <M>="<W>")\nsubprocess.run(["torchrun", "train.py"], env=env)\n',
    "ssub/job.py": 'import os\nos.environ.setdefault("<N>", "<V>")\nos.putenv("<M>", "<W>")\n',
    "lightning/cluster.py": 'ENV_VARS = {\n    "<N>": "<V>",\n    "<M>": "<W>",\n}\nfor k, v in ENV_VARS.items():\n    __import__("os").environ[k] = v\n',
}


def _made(name: str, first: tuple[str, str], second: tuple[str, str]) -> str:
    text = FORMS[name]
    for mark, value in zip(("<N>", "<V>", "<M>", "<W>"), (*first, *second), strict=True):
        text = text.replace(mark, value)
    return text


@pytest.mark.parametrize("name", sorted(FORMS))
def test_a_misspelled_name_and_a_wrong_value_are_found(name: str) -> None:
    result = lint_text(name, _made(name, ("NCCL_IB_DISABEL", "1"), ("NCCL_P2P_LEVEL", "NVLINK")))
    found = {(f.issue.variable, f.issue.name) for f in result.findings if f.severity is not Severity.INFO}
    assert {("NCCL_IB_DISABEL", "env-unknown-name"), ("NCCL_P2P_LEVEL", "env-invalid-value")} <= found


@pytest.mark.parametrize("name", sorted(FORMS))
def test_right_settings_stay_silent(name: str) -> None:
    result = lint_text(name, _made(name, ("NCCL_IB_TIMEOUT", "22"), ("NCCL_P2P_LEVEL", "NVL")))
    assert [f.issue.title for f in result.findings if f.severity is not Severity.INFO] == []
    assert {s.name for s in result.settings} == {"NCCL_IB_TIMEOUT", "NCCL_P2P_LEVEL"}
