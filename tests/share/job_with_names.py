# ruff: noqa: E501 - log lines are long
"""A log of a job whose names are all secret."""

from __future__ import annotations

import re

IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)")
LOG = """\
ares-gpu017:4711:4720 [0] NCCL INFO Bootstrap : Using eth0:10.31.7.44<0>
ares-gpu018:4711:4720 [0] NCCL INFO Bootstrap : Using eth0:10.31.7.45<0>
ares-gpu018:4711:4720 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE ; OOB ib0:192.168.9.45<0>
ares-gpu017:4711:4733 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer ares-gpu018-ib0.hpc.example.edu<41109>
ares-gpu017:4711:4733 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /home/mwinter/configs/topo.xml
ares-gpu017:4711:4733 [0] NCCL INFO Loaded net plugin /home/mwinter/lib/libnccl-net.so
ares-gpu017:4711:4733 [0] NCCL INFO NET/IB: GID ::ffff:10.31.7.44 and fe80::b859:9f03:1a:2b3c guid 0xb8599f03001a2b3c
ares-gpu017:4711:4733 [0] NCCL WARN mac b8:59:9f:1a:2b:3c bus 0000:1b:00.0 at 12:34:56, also ares-gpu031
File "/scratch/proj/mwinter/train_secret.py", line 12, in main
export SLURM_JOB_NAME=secret-llama SLURM_JOB_ID=88123 USER=mwinter
ssh mwinter@ares-gpu017 tcp://ares-gpu017:29500 https://docs.nvidia.com/nccl https://wiki.example.edu/x
loopback 127.0.0.1 any 0.0.0.0 docker 172.17.0.3 segment /dev/shm/nccl-Ab12 driver 535.104.05 cublas 12.4.5
"""
