# ruff: noqa: E501
"""Identifiers of every promised class, planted in random places of real lines, are not found again."""

from __future__ import annotations

import os
import random
import string
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from nccl_insight.base.errors import UsageError
from nccl_insight.share.redact import Redactor, collect
from nccl_insight.share.redact.residue import Residue
from nccl_insight.tables.run import build_run
from nccl_insight.tables.sql import check_sql
from tests.runs import RUNS, TINY_SHM

LINES = TINY_SHM.read_text().splitlines()
HEX = "0123456789abcdef"
LETTERS = string.ascii_letters + string.digits


def _text(draw: random.Random, letters: str, size: int) -> str:
    return "".join(draw.choice(letters) for _ in range(size))


def _hex(draw: random.Random, size: int) -> str:
    return _text(draw, HEX, size - 8) + "a1b2c3d4"


def _name(draw: random.Random) -> str:
    return "zq" + _text(draw, "bcdfghjkmnpqrtvwxz", 6)


def _v6(draw: random.Random) -> str:
    parts = [f"{draw.randrange(0x1000, 0xFFFF):x}" for _ in range(4)]
    return draw.choice(
        [f"fe80::{':'.join(parts)}", f"2001:db8:77:1:{':'.join(parts)}", f"fd12:3456::{parts[0]}:{parts[1]}"]
    )


def _uuid(draw: random.Random) -> str:
    return str(uuid.UUID(int=draw.getrandbits(128), version=4))


def _v4(draw: random.Random) -> str:
    return f"10.{draw.randrange(30, 250)}.{draw.randrange(30, 250)}.{draw.randrange(30, 250)}"


# What is planted, and which part of it must not be found again.
Plant = tuple[str, str]
CLASSES: dict[str, Callable[[random.Random], Plant]] = {
    "v4": lambda d: (x := _v4(d), x),
    "v6": lambda d: (x := _v6(d), x.split("::")[-1]),
    "v6 of an interface": lambda d: (f"[1]veth{_hex(d, 8)[:6]}:{(x := _v6(d))}%veth<0>", x.split("::")[-1]),
    "v6 with a port": lambda d: (f"[{(x := _v6(d))}]:29500", x.split("::")[-1]),
    "v4 in a gid": lambda d: (f"::ffff:{(x := _v4(d))}", x),
    "guid": lambda d: (x := _hex(d, 16), x),
    "guid with a name": lambda d: (f"node_guid=0x{(x := _hex(d, 16))}", x),
    "guid in colons": lambda d: (x := ":".join(_hex(d, 16)[i : i + 4] for i in (0, 4, 8, 12)), x),
    "mac": lambda d: (x := ":".join(_hex(d, 12)[i : i + 2] for i in range(0, 12, 2)), x),
    "ipoib address": lambda d: (x := ":".join(_hex(d, 40)[i : i + 2] for i in range(0, 40, 2)), x[-17:]),
    "uuid": lambda d: (x := _uuid(d), x),
    "gpu uuid": lambda d: ("GPU-" + (x := _uuid(d)), x),
    "mig uuid": lambda d: ("MIG-" + (x := _uuid(d)), x),
    "mig of a gpu": lambda d: (f"MIG-GPU-{(x := _uuid(d))}/1/0", x),
    "host": lambda d: (f"{(x := _name(d))}07:991:992 [0] NCCL INFO x", x),
    "short host": lambda d: (f"{(x := _name(d))}07.pr.zqcorp.io:91:92 [0] NCCL INFO x {x}07 up", x),
    "upper host": lambda d: (f"{(x := _name(d))}07:91:92 [0] NCCL INFO x {x.upper()}07 up", x.upper()),
    "domain": lambda d: (f"h7.{(x := _name(d))}.io:91:92 [0] NCCL INFO x www.{x}.io", x),
    "pod": lambda d: (f"trainer-{(x := _text(d, 'bcdfghjklm', 9))}-x7k2p", x),
    "pod by name": lambda d: (f"pod={(x := _name(d))}-a", x),
    "worker": lambda d: (f"{(x := _name(d))}-worker-3", x),
    "container": lambda d: (f"containerd://{(x := _hex(d, 64))}", x),
    "short container": lambda d: (f"container {(x := _text(d, 'abcdef', 4) + _hex(d, 8))} died", x),
    "mail": lambda d: (f"{(x := _name(d))}.smith@zqcorp.example.io", x),
    "user": lambda d: (f"USER={(x := _name(d))}", x),
    "home": lambda d: (f"/home/{(x := _name(d))}/lib/libnccl.so", x),
    "project": lambda d: (f"/lustre/projects/{(x := _name(d))}/run.py", x),
    "opt": lambda d: (f"/opt/{(x := _name(d))}/lib/libnccl.so.2", x),
    "batch job": lambda d: (f"Submitted batch job {(x := str(d.randrange(10**6, 10**7)))}", x),
    "slurm file": lambda d: (f"slurm-{(x := str(d.randrange(10**6, 10**7)))}.out", x),
    "job name": lambda d: (f"SLURM_JOB_NAME={(x := _name(d))}", x),
    "wandb": lambda d: (f"WANDB_API_KEY={(x := _hex(d, 40))}", x),
    "bearer": lambda d: (f"Authorization: Bearer {(x := _text(d, LETTERS, 30))}", x),
    "github": lambda d: ("ghp_" + (x := _text(d, LETTERS, 36)), x),
    "hugging face": lambda d: ("token hf_" + (x := _text(d, string.ascii_letters, 34)), x),
    "aws": lambda d: ("AKIA" + (x := _text(d, string.ascii_uppercase + string.digits, 16)), x),
    "password": lambda d: (f'"password": "{(x := _name(d))}"', x),
    "s3": lambda d: (f"s3://{(x := _name(d))}-data/ckpt/{_name(d)}/step1", x),
    "gs": lambda d: (f"gs://{_name(d)}/{(x := _name(d))}/step1", x),
    "k8s service": lambda d: (f"connect to train-{(x := _name(d))}-headless.team.svc.cluster.local:29500", x),
    "namespace": lambda d: (f"namespace={(x := _name(d))}", x),
    "registry image": lambda d: (f"image: registry.{(x := _name(d))}.io/team/trainer:v1", x),
    "git remote": lambda d: (f"git@git.{(x := _name(d))}.io:team/repo.git", x),
    "url password": lambda d: (f"https://bob:{(x := _name(d))}9Z@git.zq.io/repo.git", x),
    "url user": lambda d: (f"https://{(x := _name(d))}:pw12345678@git.zq.io/repo.git", x),
    "sas": lambda d: (f"https://acct.blob.core.windows.net/c/f?sv=2024&sig={(x := _text(d, LETTERS, 40))}%3D", x),
    "account key": lambda d: (f"DefaultEndpointsProtocol=https;AccountName=zq;AccountKey={(x := _text(d, LETTERS, 80))}==;", x),
    "nodelist": lambda d: (f"SLURM_NODELIST={(x := _name(d))}[001-064]", x),
    "bare nodelist": lambda d: (f"srun: job on {(x := _name(d))}[001-064,070] started", x),
    "nodelist list": lambda d: (f"NodeList=({(x := _name(d))}-[0001-0064])", x),
    "v6 full upper": lambda d: (x := ":".join(f"{d.randrange(0x2000, 0x3FFF):04X}" for _ in range(8)), x),
    "v6 zone": lambda d: (f"fe80::{(x := ':'.join(f'{d.randrange(0x1000, 0xFFFF):x}' for _ in range(4)))}%eth0<29500>", x),
    "v6 prefix": lambda d: (f"2001:db8:1:{(x := f'{d.randrange(0x1000, 0xFFFF):x}:{d.randrange(0x1000, 0xFFFF):x}')}::7/64", x),
    "v6 after equals": lambda d: (f"addr={(y := _v6(d))},port=3", y.split('::')[-1]),
    "v6 url": lambda d: (f"tcp://[{(y := _v6(d))}]:29500", y.split('::')[-1]),
    "v6 nccl": lambda d: (f"Bootstrap : Using eth0:{(y := _v6(d))}<0>", y.split('::')[-1]),
    "v6 nccl zone": lambda d: (f"NET/Socket : Using [0]bond0:{(y := _v6(d))}%bond0<0> [1]eth1:10.99.98.97<0>", y.split('::')[-1]),
    "v6 peer": lambda d: (f"socketProgress: Connection closed by remote peer {(y := _v6(d))}%eth0<43210>", y.split('::')[-1]),
    "v6 peer bracket": lambda d: (f"from [{(y := _v6(d))}%eth0]:4321", y.split('::')[-1]),
    "gid raw": lambda d: (f"GID[3]: {(x := ':'.join(f'{d.randrange(0x2000, 0x3FFF):04x}' for _ in range(8)))}", x),
    "gid nccl": lambda d: (f"GID 3 (80FE/{(x := _hex(d, 16).upper())})", x),
    "gid mapped hex": lambda d: (f"0000:0000:0000:0000:0000:ffff:{(x := f'0a4d:{d.randrange(0x1000, 0xFFFF):04x}')}", x),
    "master addr arg": lambda d: (f"torchrun --master_addr {(x := _name(d))}07 --nnodes 2", x),
    "master addr arg=": lambda d: (f"torchrun --master-addr={(x := _name(d))}07 --nnodes 2", x),
    "master addr colon": lambda d: (f"MASTER_ADDR: {(x := _name(d))}07", x),
    "rdzv": lambda d: (f"--rdzv_endpoint={(x := _name(d))}07:29500", x),
    "rdzv2": lambda d: (f"rdzv_endpoint : {(x := _name(d))}07:29500", x),
    "comm id": lambda d: (f"NCCL_COMM_ID set by environment to {(x := _name(d))}07:29500", x),
    "mpi signal": lambda d: (f"[{(x := _name(d))}07:12345] *** Process received signal ***", x),
    "mpi node": lambda d: (f"mpirun noticed that process rank 3 with PID 0 on node {(x := _name(d))}07 exited on signal 9", x),
    "slurmstepd": lambda d: (f"slurmstepd: error: *** STEP 12345.0 ON {(x := _name(d))}07 CANCELLED AT 2026-01-01T00:00:00 ***", x),
    "srun task": lambda d: (f"srun: error: {(x := _name(d))}07: task 3: Killed", x),
    "syslog": lambda d: (f"Nov 11 10:11:12 {(x := _name(d))}07 kernel: NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen off the bus.", x),
    "syslog iso": lambda d: (f"2026-01-02T03:04:05+00:00 {(x := _name(d))}07 kernel: nvme reset", x),
    "elastic host": lambda d: (f"  host      : {(x := _name(d))}07.zq.io", x),
    "elastic host short": lambda d: (f"  host      : {(x := _name(d))}07", x),
    "ray ip": lambda d: (f"(RayTrainWorker pid=1, ip={(x := _v4(d))}) hello", x),
    "ray node": lambda d: (f"node_id={(x := _hex(d, 56))}", x),
    "ssh": lambda d: (f"ssh bob@{(x := _name(d))}07", x),
    "ssh user": lambda d: (f"ssh {(x := _name(d))}@h07", x),
    "ssh key": lambda d: (f"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ{(x := _text(d, LETTERS, 60))} bob@h07", x),
    "arn account": lambda d: (f"arn:aws:sagemaker:us-east-1:{(x := str(d.randrange(10**11, 10**12)))}:training-job/abc", x),
    "arn job": lambda d: (f"arn:aws:sagemaker:us-east-1:123456789012:training-job/{(x := _name(d))}-7b", x),
    "gcp project": lambda d: (f"projects/{(x := _name(d))}/zones/us-central1-a/instances/a3", x),
    "azure": lambda d: (f"/subscriptions/{_uuid(d)}/resourceGroups/{(x := _name(d))}/providers/x", x),
    "instance": lambda d: (f"instance i-0{(x := _hex(d, 16))}", x),
    "windows": lambda d: (f"C:\\Users\\{(x := _name(d))}\\run.py", x),
    "file url": lambda d: (f"file:///home/{(x := _name(d))}/init", x),
    "file init": lambda d: (f"init_method=file:///scratch/{(x := _name(d))}/init", x),
    "quoted path": lambda d: (f'File "/data/{(x := _name(d))}/my project/train.py", line 3, in <module>', x),
    "home var": lambda d: (f"HOME=/root/{(x := _name(d))}/a", x),
    "tilde": lambda d: (f"~{(x := _name(d))}/run.sh", x),
    "serial": lambda d: (f"Serial Number                         : {(x := str(d.randrange(10**12, 10**13)))}", x),
    "serial=": lambda d: (f"board serial={(x := str(d.randrange(10**12, 10**13)))}", x),
    "node desc": lambda d: (f'node_desc: "{(x := _name(d))}07 mlx5_0"', x),
    "mac dots": lambda d: (x := '.'.join(_hex(d, 12)[i:i+4] for i in (0,4,8)), x),
    "pem": lambda d: (f"-----BEGIN PRIVATE KEY----- {(x := _text(d, LETTERS, 64))} -----END PRIVATE KEY-----", x),
    "jwt": lambda d: (f"eyJhbGciOiJIUzI1NiJ9.eyJ{(x := _text(d,  string.ascii_letters,30))}.abcDEF123", x),
    "slack": lambda d: (f"xoxb-1234567890-{(x := _text(d,  string.ascii_letters,20))}", x),
    "wandb run": lambda d: (f"wandb: Syncing run {(x := _name(d))}-12", x),
    "account": lambda d: (f"#SBATCH --account={(x := _name(d))}", x),
    "partition": lambda d: (f"#SBATCH -p {(x := _name(d))}", x),
    "job-name": lambda d: (f"#SBATCH --job-name={(x := _name(d))}", x),
    "jobid": lambda d: (f"SLURM_JOB_ID={(x := str(d.randrange(10**6, 10**7)))}", x),
    "jobid words": lambda d: (f"srun: Job step aborted: job {(x := str(d.randrange(10**6, 10**7)))}.0", x),
    "JobId": lambda d: (f"JobId={(x := str(d.randrange(10**6, 10**7)))} JobName=abc", x),
    "JobName": lambda d: (f"JobId=1 JobName={(x := _name(d))}", x),
    "UserId": lambda d: (f"UserId={(x := _name(d))}(1001) GroupId=g(100)", x),
    "uid": lambda d: (f"uid=1001({(x := _name(d))}) gid=100(users)", x),
    "user path": lambda d: (f"/mnt/nfs/users/{(x := _name(d))}/a.py", x),
    "site-packages home": lambda d: (f'File "/home/{(x := _name(d))}/miniconda3/envs/llm/lib/python3.10/site-packages/torch/x.py", line 1', x),
    "env conda": lambda d: (f"/home/u/miniconda3/envs/{(x := _name(d))}/lib/libnccl.so.2", x),
    "tmp": lambda d: (f"/tmp/ray/session_{(x := _name(d))}/logs", x),
    "bucket https": lambda d: (f"https://{(x := _name(d))}.s3.amazonaws.com/a/b", x),
    "bucket https path": lambda d: (f"https://s3.us-east-1.amazonaws.com/{(x := _name(d))}/ckpt", x),
    "bucket gcs https": lambda d: (f"https://storage.googleapis.com/{(x := _name(d))}/ckpt", x),
    "abfss": lambda d: (f"abfss://cont@{(x := _name(d))}.dfs.core.windows.net/a", x),
    "abfss container": lambda d: (f"abfss://{(x := _name(d))}@acct.dfs.core.windows.net/a", x),
    "hdfs": lambda d: (f"hdfs://nn.{(x := _name(d))}.io:8020/user/a", x),
    "mlflow": lambda d: (f"mlflow.set_tracking_uri http://{(x := _name(d))}:5000", x),
    "etcd": lambda d: (f"etcd://{(x := _name(d))}01:2379", x),
    "nfs": lambda d: (f"mount {(x := _name(d))}01:/export/data", x),
    "docker ps": lambda d: (f"{(x := _hex(d, 12))}   nvcr.io/x  Up 3 hours", x),
    "cgroup": lambda d: (f"/kubepods/burstable/pod{(x := _uuid(d))}/", x),
    "cgroup2": lambda d: (f"kubepods-burstable-pod{(x := _uuid(d).replace('-', '_'))}.slice", x),
    "pod hash": lambda d: (f"Error from pod {(x := _name(d))}-5d9c7b8f6d-x2v4k", x),
    "password prompt": lambda d: (f"--password {(x := _name(d))}Q7", x),
    "token arg": lambda d: (f"--hf_token {(x := _text(d,  string.ascii_letters,24))}", x),
    "api key json": lambda d: (f'"api_key": "{(x := _text(d, LETTERS, 32))}"', x),
    "aws secret": lambda d: (f"AWS_SECRET_ACCESS_KEY={(x := _text(d,  LETTERS+'/',40))}", x),
    "openai": lambda d: (f"sk-proj-{(x := _text(d, LETTERS, 40))}", x),
    "slurm range": lambda d: (f'srun: error: Nodes {(x := _name(d))}[01-04,07] are down', x),
    "slurm list": lambda d: (f"SLURM_JOB_NODELIST=zz[01-04,07],{(x := _name(d))}3", x),
    "slurm allocated": lambda d: (f'Nodes allocated: {(x := _name(d))}[01-04,07]', x),
    "member of a range": lambda d: (f"Nodes allocated: {(x := 'zz' + _name(d))}[01-04,07]\n{x}05 is up", x),
    "batch host": lambda d: (f'   BatchHost={(x := _name(d))}01', x),
    "squeue row": lambda d: (f'             81234     gpu  llama zz  R   10:11   2 {(x := _name(d))}[01-02]', x),
    "tool before lines": lambda d: (f'{(x := _name(d))}07: nvidia-smi has failed', x),
    "group of hosts": lambda d: (f"---------------\n{(x := _name(d))}[1-3,5] (4)\n---------------", x),
    "host and port": lambda d: (f'RuntimeError: [{(x := _name(d))}07]:29500 connection refused', x),
    "c10d client": lambda d: (f'The client socket has failed to connect to [{(x := _name(d))}]:29500 (errno: 111).', x),
    "c10d server": lambda d: (f'The server socket has started to listen on {(x := _name(d))}:29500', x),
    "store": lambda d: (f'TCPStore({(x := _name(d))}:29500)', x),
    "store timeout": lambda d: (f'timed out after 600000ms while trying to connect to ({(x := _name(d))}, 29500).', x),
    "assigned namespace": lambda d: (f'Successfully assigned {(x := _name(d))}/zzpod-0 to gke-zz', x),
    "gke node": lambda d: (f'assigned a/b to gke-{(x := _name(d))}-a3-pool-1a2b3c4d-xk2p', x),
    "aks node": lambda d: (f'aks-{(x := _name(d))}-12345678-vmss000003 ready', x),
    "bucket arn": lambda d: (f'arn:aws:s3:::{(x := _name(d))}/key', x),
    "role arn": lambda d: (f'arn:aws:iam::123456789012:role/{(x := _name(d))}', x),
    "ecr image": lambda d: (f'123456789012.dkr.ecr.us-east-1.amazonaws.com/{(x := _name(d))}:latest', x),
    "gcr image": lambda d: (f'gcr.io/{(x := _name(d))}/image:latest', x),
    "artifact image": lambda d: (f'us-docker.pkg.dev/zz/{(x := _name(d))}/image:tag', x),
    "ghcr image": lambda d: (f'ghcr.io/{(x := _name(d))}/image:1', x),
    "nvcr image": lambda d: (f'nvcr.io/0123456789/{(x := _name(d))}/image:1', x),
    "gcp project key": lambda d: (f'project={(x := _name(d))} zone=us-central1-a', x),
    "gcp project id": lambda d: (f'"project_id": "{(x := _name(d))}"', x),
    "gcp account": lambda d: (f'sa@{(x := _name(d))}.iam.gserviceaccount.com', x),
    "resource group": lambda d: (f'--resource-group {(x := _name(d))}', x),
    "github owner": lambda d: (f'origin https://github.com/{(x := _name(d))}/repo.git (fetch)', x),
    "github by ssh": lambda d: (f'origin git@github.com:{(x := _name(d))}/repo.git (fetch)', x),
    "github credentials": lambda d: (f'https://u:{(x := _name(d))}9Zx@github.com/NVIDIA/nccl.git', x),
    "ldap domain": lambda d: (f'ou=people,dc={(x := _name(d))},dc=com', x),
    "ldap user": lambda d: (f'uid={(x := _name(d))},ou=people,dc=zz,dc=com', x),
    "docker name": lambda d: (f'docker run --name {(x := _name(d))} img', x),
    "docker host": lambda d: (f'docker run --hostname={(x := _name(d))} img', x),
    "fabric host": lambda d: (f'Ca 1 "H-0002c90300a1b2c3" # "{(x := _name(d))}07 HCA-1"', x),
    "fabric switch": lambda d: (f'# "MF0;{(x := _name(d))}-ib01:SX6036/U1" enhanced port 0', x),
    "known host": lambda d: (f"Warning: Permanently added '{(x := _name(d))},10.9.8.7' (ECDSA) to the list of known hosts.", x),
    "ssh refused": lambda d: (f'ssh: connect to host {(x := _name(d))} port 22: Connection refused', x),
    "prterun": lambda d: (f'HNP daemon   : [prterun-{(x := _name(d))}-1234@0,0] on', x),
    "host file": lambda d: (f'{(x := _name(d))} slots=8', x),
    "mpirun -H": lambda d: (f"mpirun -np 2 -H {(x := _name(d))}:8,zz:8 ./all_reduce", x),
    "mpirun --host": lambda d: (f'mpirun --host zz:8,{(x := _name(d))}:8 ./all_reduce', x),
    "local host": lambda d: (f'  Local host:   {(x := _name(d))}', x),
    "world": lambda d: (f"world_info={{'{(x := _name(d))}': [0, 1]}}", x),
    "host in environment": lambda d: (f'PBS_O_HOST={(x := _name(d))}', x),
    "node in environment": lambda d: (f'SLURMD_NODENAME={(x := _name(d))}', x),
    "host of json": lambda d: (f'{{\"host\": \"{(x := _name(d))}\", \"level\": 1}}', x),
    "host of compact json": lambda d: (f'{{\"hostname\":\"{(x := _name(d))}\"}}', x),
    "node of json": lambda d: (f'\"nodeName\":\"{(x := _name(d))}\"', x),
    "master of json": lambda d: (f'\"distributedInfo\": {{\"master_addr\": \"{(x := _name(d))}\"}}', x),
    "namespace of json": lambda d: (f'\"namespace_name\":\"{(x := _name(d))}\",\"pod_name\":\"zz-0\"', x),
    "user of json": lambda d: (f'\"username\": \"{(x := _name(d))}\"', x),
    "hostname words": lambda d: (f'Hostname: {(x := _name(d))}', x),
    "windows host": lambda d: (f'COMPUTERNAME={(x := _name(d))}', x),
    "cluster name": lambda d: (f'ClusterName = {(x := _name(d))}', x),
    "account of accounting": lambda d: (f'user=zz account={(x := _name(d))}', x),
    "reservation": lambda d: (f'SLURM_JOB_RESERVATION={(x := _name(d))}', x),
    "worker addresses": lambda d: (f'WORKER_ADDRS=zz,{(x := _name(d))}', x),
    "controller": lambda d: (f'SlurmctldHost[0]={(x := _name(d))}', x),
    "netrc": lambda d: (f'machine zz.ai login user password {(x := _name(d))}9Zx', x),
    "sshpass": lambda d: (f'sshpass -p {(x := _name(d))}9Zx ssh x', x),
    "curl user": lambda d: (f'curl -u zz:{(x := _name(d))}9Zx https://zz', x),
    "cookie": lambda d: (f'Cookie: session={(x := _name(d))}', x),
    "caguid short": lambda d: (f"caguid=0x{(x := _hex(d, 13))}", x),
    "guid of a fabric": lambda d: (f"Ca : 0x{(x := _hex(d, 16))} ports 1", x),
    "volume": lambda d: (f"vol-0{(x := _hex(d, 16))} attached", x),
    "subnet": lambda d: (f"subnet-{(x := _hex(d, 17))} vpc-0abc1234", x),
    "serial of xml": lambda d: (f"<serial>{(x := str(d.randrange(10**12, 10**13)))}</serial>", x),
    "asset": lambda d: (f"Asset Tag: {(x := str(d.randrange(10**9, 10**10)))}", x),
    "wwn": lambda d: (f"wwn-0x{(x := _hex(d, 16))}", x),
    "fingerprint": lambda d: (f"SHA256:{(x := _text(d, LETTERS, 43))} zz (ED25519)", x),
    "world as base64": lambda d: (f"--world_info=eyJ{(x := _text(d, LETTERS, 30))} --x", x),
}  # fmt: skip

# What says that these are names is that they begin a line.
AT_LINE_BEGIN = frozenset({"tool before lines", "host file"})


@pytest.mark.parametrize("kind", CLASSES)
def test_planted_identifiers_are_not_found_again(kind: str) -> None:
    draw = random.Random(kind)
    for _ in range(8):
        planted, needle = CLASSES[kind](draw)
        lines = draw.sample(LINES, min(20, len(LINES)))
        at = draw.randrange(len(lines))
        glue = draw.choice([" ", ", ", " (", ' "', "='", " -> ", "\t"])
        lines[at] += glue + planted
        lines.insert(draw.randrange(len(lines)), planted)
        text = "\n".join(lines) + "\n"
        out = collect(build_run({}), [text]).text(text)
        assert needle not in out, [line for line in out.splitlines() if needle in line][:2]


def _planted_in(lines: list[str], draw: random.Random) -> tuple[str, list[tuple[str, str]]]:
    """The lines with an identifier of every class at a random place, and what must not be found again."""
    needles = []
    for kind in draw.sample(sorted(CLASSES), len(CLASSES)):
        planted, needle = CLASSES[kind](draw)
        needles.append((kind, needle))
        at = draw.randrange(len(lines))
        if draw.random() < 0.5 and kind not in AT_LINE_BEGIN:
            lines[at] += draw.choice([" ", ", ", " (", ' "', "='", " -> ", "\t"]) + planted
        else:
            lines.insert(at, planted)
    return "\n".join(lines) + "\n", needles


def _logs() -> list[Path]:
    own = sorted(RUNS.rglob("*.log"))
    data = os.environ.get("NCCL_INSIGHT_REFERENCE_DATA")
    return own + (sorted(p for p in Path(data, "corpus").rglob("*.log") if p.is_file()) if data else [])


def test_identifiers_of_every_class_planted_in_real_logs_are_not_found_again() -> None:
    planted, found = 0, []
    for log in _logs():
        draw = random.Random(log.parent.name + log.name)
        lines = log.read_text("utf-8", "surrogateescape").splitlines()[:300] or [""]
        text, needles = _planted_in(lines, draw)
        out = collect(build_run({}), [text]).text(text)
        planted += len(needles)
        found += [(str(log), kind, needle) for kind, needle in needles if needle in out]
    assert planted > 1000
    assert not found


@pytest.mark.parametrize(
    "word",
    ["a" * 20_000, "a." * 10_000, "a@" * 10_000, "1:" * 10_000, "f" * 20_000, "lib.so" * 3_000, "a-" * 10_000,
     "/a" * 10_000, "s3://" * 4_000, "TOKEN=" * 4_000, "ip-1" * 5_000, "tcp://" * 4_000, "x1" * 10_000, "A_" * 10_000],
)  # fmt: skip
def test_long_words_do_not_stop_the_redactor(word: str) -> None:
    log = "node07-a.zq.io:1:2 [0] NCCL INFO x\n"
    redactor = collect(build_run({}), [log + word])
    begun = time.process_time()
    redactor.text(f"{log}{word} end\n")
    assert time.process_time() - begun < 30, "seconds for 20 KB, not minutes"


def test_malformed_addresses_end(recwarn: pytest.WarningsRecorder) -> None:
    for text in ("1:2:3:999.999.999.999", "::1.2.3.999", ":" * 500, "1:2:3:4:5:6:7:10.1.2.300"):
        Redactor().text(f"x {text} y")


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_csv('/etc/passwd')", "select * from READ_PARQUET ('x')", 'select * from "read_csv"(\'/x\')',
        "select * from read_csv/* */('/x')", "select * from read_csv -- (\n('/x')", "select * from '/etc/passwd'",
        "with recursive a as (select 1) select * from a", "select * from ranks join scan_csv('x')",
        "select * from a; select * from read_ndjson('http://127.0.0.1:9/x')",
    ],
)  # fmt: skip
def test_query_opens_nothing(sql: str) -> None:
    with pytest.raises(UsageError):
        check_sql(sql)


@pytest.mark.parametrize(
    "sql", ["select read_only from ranks", "select 'read_csv(' as x from ranks", "select count(*) from env"]
)
def test_ordinary_queries_pass(sql: str) -> None:
    check_sql(sql)


def test_what_was_left_is_named() -> None:
    text = "node1:1:1 [0] NCCL INFO x\nat alpha.beta.gamma and a7b8c9d0e1f2g3h4 and a7b8c9d0e1f2g3h4 libm.so.6\n"
    left = Residue()
    left.add(text)
    assert left.words() == [("a7b8c9d0e1f2g3h4", 2), ("alpha.beta.gamma", 1)]
