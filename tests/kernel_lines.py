# ruff: noqa: E501 (lines of logs)
"""A job of several hosts, and lines of the kernel about its processes."""

from __future__ import annotations

HOSTS = ("gpu01", "gpu02")
PIDS = (4100, 4101, 4102, 4103, 5200, 5201, 5202, 5203)


def host_of(rank: int) -> str:
    return HOSTS[rank // 4]


def job(tag: str = "", level: str = "INFO", echo: bool = True) -> list[str]:
    """Eight ranks on two hosts that start, and lose rank 5 at 12:00:05."""
    lines: list[str] = []
    if level == "INFO":
        for state in ("START", "COMPLETE"):
            for rank in range(8):
                lines.append(
                    f"{tag.format(rank=rank, host=host_of(rank))}{host_of(rank)}:{PIDS[rank]}:{PIDS[rank]} [{rank % 4}] NCCL INFO "
                    f"ncclCommInitRank comm 0x55d0a{rank} rank {rank} nranks 8 cudaDev {rank % 4} nvmlDev {rank % 4} "
                    f"busId {rank % 4 + 1}b000 commId 0x7d1ab3c1 - Init {state}"
                )
    if echo:
        for rank in (0, 3, 6):
            lines.append(
                f"{tag.format(rank=rank, host=host_of(rank))}[2026-11-17 12:00:05] {host_of(rank)}:{PIDS[rank]}:{PIDS[rank] + 900} [{rank % 4}] "
                "misc/socket.cc:71 NCCL WARN socketProgress: Connection closed by remote peer gpu02<40110>"
            )
    return lines


def dmesg_oom(pid: int, at: str = "12:00:04", host: str = "") -> list[str]:
    head = f"Nov 17 {at} {host} kernel:" if host else f"[Tue Nov 17 {at} 2026]"
    return [
        f"{head} oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=job_7,mems_allowed=0-1,oom_memcg=/slurm/"
        f"uid_0/job_7,task_memcg=/slurm/uid_0/job_7/step_0,task=python3,pid={pid},uid=1000",
        f"{head} Memory cgroup out of memory: Killed process {pid} (python3) total-vm:91331212kB, anon-rss:61223344kB, "
        "file-rss:41203kB, shmem-rss:8123kB, UID:1002 pgtables:132312kB oom_score_adj:0",
    ]


def segfault(pid: int, host: str = "", at: str = "12:00:04") -> str:
    head = f"Nov 17 {at} {host} kernel:" if host else f"[Tue Nov 17 {at} 2026]"
    return f"{head} python3[{pid}]: segfault at 10 ip 00007f3a sp 00007ffd error 4 in libcustom_op.so[7f3a00+a000]"
