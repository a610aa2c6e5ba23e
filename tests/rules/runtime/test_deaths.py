# ruff: noqa: E501 (lines of logs)
"""One death that two to four witnesses tell in different files and words: its kind, rank, host and time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

import nccl_insight
from tests.kernel_lines import HOSTS, PIDS, dmesg_oom, job, segfault
from tests.runs import RUNS

TORCHRUN = RUNS.parent / "torchrun"


def elastic(rank: int, host: str, code: int, pid: int, first: str = "12:00:06") -> list[str]:
    why = "Signal 9 (SIGKILL) received by PID" if code == -9 else "Signal 11 (SIGSEGV) received by PID"
    said = (
        f"{why} {pid}" if code < 0 else "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
    )
    return [
        f"E1117 {first}.500000 7001 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: {code}) "
        f"local_rank: {rank % 4} (pid: {pid}) of binary: /usr/bin/python3",
        "Root Cause (first observed failure):",
        "[0]:",
        f"  time      : 2026-11-17_{first}",
        f"  host      : {host}",
        f"  rank      : {rank} (local_rank: {rank % 4})",
        f"  exitcode  : {code} (pid: {pid})",
        "  error_file: <N/A>",
        f"  traceback : {said}",
    ]


MPIRUN = [
    "--------------------------------------------------------------------------",
    "mpirun noticed that process rank 5 with PID 5201 on node gpu02 exited on signal 9 (Killed).",
    "--------------------------------------------------------------------------",
]
RAY_MEMORY = (
    "(raylet, ip=10.1.0.4) [2026-11-17 12:00:04,114 E 2100 2100] (raylet) node_manager.cc:3064: 1 Workers (tasks / "
    "actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: 9f3c, IP: "
    "10.1.0.4) over the last time period."
)
RAY_EXIT = (
    "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the "
    "problem, check the logs for the dead worker. RayTask ID: ffffb8e3 Worker ID: cc53fb Node ID: 0a4102 Worker IP "
    "address: 10.1.0.4 Worker port: 10012 Worker PID: 5201 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker "
    "unexpectedly exits with a connection error code 2. End of file."
)
INTERFACES = [
    f"{h}:{PIDS[4 * i]}:{PIDS[4 * i]} [0] NCCL INFO Bootstrap: Using eth0:10.1.0.{3 + i}<0>"
    for i, h in enumerate(HOSTS)
]
SRUN = "srun: error: gpu02: task 5: Out Of Memory"
SRUN_KILLED = "srun: error: gpu02: task 5: Killed"
SRUN_SEGV = "srun: error: gpu02: task 5: Segmentation fault (core dumped)"
STEP_OOM = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed."


@dataclass(frozen=True)
class Death:
    """``files``: what each witness wrote. ``kind``: the diagnosis; ``words``: in the title."""

    name: str
    files: dict[str, list[str]]
    kind: str = "process-killed"
    ranks: tuple[int, ...] = (5,)
    hosts: tuple[str, ...] = ("gpu02",)
    words: str = ""


def _split(lines: list[str], *hosts: str) -> dict[str, list[str]]:
    return {f"{h}.log": [line for line in lines if f"{h}:" in line] for h in hosts}


TORCH = ["[rank0]:[W1117 12:00:05.1 socket.cpp:464] [c10d] recv failed: Connection reset by peer"]
DEATHS = [
    Death(
        "kernel and torchrun",
        {"job.log": [*job(), *elastic(5, "gpu02", -9, 5201)], "dmesg.txt": dmesg_oom(5201)},
        words="memory",
    ),
    Death(
        "kernel of a container's node, other numbers, and torchrun",
        {"job.log": [*job(), *elastic(5, "gpu02", -9, 5201)], "node-dmesg.txt": dmesg_oom(280146)},
        words="memory",
    ),
    Death(
        "kernel with host and srun",
        {"job.log": [*job(), SRUN_KILLED], "messages": dmesg_oom(5201, host="gpu02")},
        words="memory",
    ),
    Death(
        "kernel with host, no number of ours, and srun",
        {"job.log": [*job(), SRUN_KILLED], "messages": dmesg_oom(90311, host="gpu02")},
        words="memory",
    ),
    Death("srun and slurmstepd", {"job.log": [*job(), STEP_OOM, SRUN]}, words="memory"),
    Death("mpirun and kernel", {"job.log": [*job(), *MPIRUN], "dmesg-gpu02.log": dmesg_oom(5201)}, words="memory"),
    Death("mpirun alone, torch's echoes", {"job.log": [*job(), *TORCH, *MPIRUN]}),
    Death(
        "ray's monitor and its list of exits", {"job.log": [*INTERFACES, *job(), RAY_MEMORY, RAY_EXIT]}, words="memory"
    ),
    Death(
        "kernel and a crash in srun's words",
        {"job.log": [*job(), SRUN_SEGV], "dmesg": [segfault(5201, "gpu02")]},
        kind="process-crashed",
        words="segmentation",
    ),
    Death(
        "kernel's segfault and torchrun",
        {"job.log": [*job(), *elastic(5, "gpu02", -11, 5201)], "dmesg": [segfault(5201)]},
        kind="process-crashed",
        words="segmentation",
    ),
    Death(
        "a file of each host, torchrun, no NCCL lines",
        {
            "gpu01.log": [*TORCH, *elastic(0, "gpu01", 1, 4100, "12:00:12")],
            "gpu02.log": elastic(5, "gpu02", -9, 5201),
            "gpu02-dmesg.txt": dmesg_oom(5201),
        },
        words="memory",
    ),
    Death(
        "a file of each host, NCCL lines, kernel without host",
        {**_split(job(), *HOSTS), "dmesg.txt": dmesg_oom(5201), "torchrun.log": elastic(5, "gpu02", -9, 5201)},
        words="memory",
    ),
    Death("srun alone, no NCCL lines", {"job.log": [*TORCH, STEP_OOM, SRUN]}, words="memory"),
    Death(
        "hydra and kernel",
        {
            "job.log": [
                *job(),
                "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
                "=   RANK 5 PID 5201 RUNNING AT gpu02",
                "=   KILLED BY SIGNAL: 9 (Killed)",
            ],
            "dmesg": dmesg_oom(5201),
        },
        words="memory",
    ),
    Death(
        "Kubernetes and torchrun",
        {
            "worker-0.log": [*TORCH, *elastic(0, "worker-0", 1, 4100, "12:00:12")],
            "worker-1.log": elastic(5, "worker-1", -9, 81),
            "events.txt": [
                "12s  Warning  OOMKilling  node/gke-7  Memory cgroup out of memory: Killed process 280146 (python3) total-vm:91331212kB, "
                "anon-rss:61223344kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:132312kB oom_score_adj:996"
            ],
        },
        hosts=("worker-1",),
        words="memory",
    ),
    Death(
        "deepspeed and kernel",
        {
            "job.log": [
                *job(),
                "[2026-11-17 12:00:06,100] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py', '--local_rank=1'] exits with return code = -9",
            ],
            "dmesg": dmesg_oom(5201),
        },
        words="memory",
    ),
    Death(
        "mp.spawn on one host and kernel",
        {
            "job.log": [
                *job(),
                "torch.multiprocessing.spawn.ProcessExitedException: process 5 terminated with signal SIGKILL",
            ],
            "dmesg": dmesg_oom(5201),
        },
        words="memory",
    ),
    Death(
        "the exit of another rank comes behind",
        {
            "job.log": [*job(), *elastic(0, "gpu01", 1, 4100, "12:00:30"), *elastic(5, "gpu02", -9, 5201)],
            "dmesg": dmesg_oom(5201),
        },
        words="memory",
    ),
    Death(
        "systemd-oomd and mpirun",
        {
            "job.log": [*job(), *MPIRUN],
            "journal.txt": [
                "Nov 17 12:00:04 gpu02 systemd-oomd[811]: Killed /user.slice/user-1000.slice/session-4.scope due to memory pressure for "
                "/user.slice being 71.30% > 50.00% for > 20s with reclaim activity"
            ],
        },
        words="memory",
    ),
    Death(
        "PBS' memory limit and mpirun",
        {"job.log": [*job(), *MPIRUN, "=>> PBS: job killed: mem 412331212kb exceeded limit 412316860kb"]},
        words="",
    ),
    Death(
        "LSF's memory limit and jsrun",
        {
            "job.log": [
                *job(),
                "ERROR:  One or more process (first noticed rank 5) terminated with signal 9 (core dumped)",
                "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
            ]
        },
        words="memory",
    ),
    Death(
        "an exception and torchrun's block",
        {
            "job.log": [
                *job(echo=False),
                "[rank5]: Traceback (most recent call last):",
                '[rank5]:   File "/app/train.py", line 88, in <module>',
                "[rank5]: KeyError: 'labels'",
                *job(level="WARN"),
                *elastic(5, "gpu02", 1, 5201),
            ]
        },
        kind="application-exception",
    ),
    Death(
        "a bus error in the kernel's words and the shell's",
        {
            "job.log": [*job(), *elastic(5, "gpu02", -7, 5201)],
            "journal.txt": [
                "Nov 17 12:00:05 gpu02 systemd-coredump[9001]: Process 5201 (python3) of user 1000 dumped core."
            ],
        },
        kind="process-crashed",
    ),
    Death(
        "dmesg after the fact, with another job's kill hours before",
        {
            "job.log": [*job(), *elastic(5, "gpu02", -9, 5201)],
            "dmesg": [*dmesg_oom(3111, "07:10:00"), *dmesg_oom(5201)],
        },
        words="memory",
    ),
]


PODS = tuple(f"trainer-worker-{n}" for n in range(4))
_LOST = [
    f"[2026-11-17 12:00:05] {p}:{70 + n}:{170 + n} [0] misc/socket.cc:71 NCCL WARN socketProgress: Connection closed by "
    "remote peer trainer-worker-1<40110>"
    for n, p in enumerate(PODS)
    if n != 1
]
_OF_PODS = {
    f"{p}.log": [
        *(
            f"{p}:{70 + n}:{70 + n} [0] NCCL INFO ncclCommInitRank comm 0x55d0a{n} rank {n} nranks 4 cudaDev 0 nvmlDev 0 "
            f"busId 1b000 commId 0x7d1ab3c1 - Init {state}"
            for state in ("START", "COMPLETE")
        ),
        *(line for line in _LOST if f" {p}:" in line),
    ]
    for n, p in enumerate(PODS)
}
DEATHS += [
    Death(
        "a pod's state and the NCCL lines of its peers",
        {
            **_OF_PODS,
            "pod.yaml": [
                "kind: Pod", "metadata:", "  name: trainer-worker-1", "  namespace: ml", "status:",
                "  containerStatuses:", "  - lastState: {}", "    name: pytorch", "    state:", "      terminated:",
                "        exitCode: 137", "        reason: OOMKilled",
            ],
        },
        ranks=(1,),
        hosts=("trainer-worker-1",),
        words="memory",
    ),
    Death(
        "PBS' limit of address space and hydra",
        {
            "job.o1": [
                *job(),
                "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
                "=   RANK 5 PID 5201 RUNNING AT gpu02",
                "=   KILLED BY SIGNAL: 9 (Killed)",
            ],
            "job.e1": ["=>> PBS: job killed: vmem 598331212kb exceeded limit 524288000kb"],
        },
        words="memory",
    ),
    Death(
        "a kill of the day before, of a process with the same number",
        {
            "job.log": [*job(), SRUN_KILLED],
            "gpu02-dmesg.txt": [line.replace("Nov 17", "Nov 16") for line in dmesg_oom(5201)],
        },
        words="Rank 5 on gpu02 was killed",
    ),
    Death(
        "an exception, and a stranger killed on the other host in the same minute",
        {
            "job.log": [
                *job(echo=False),
                "[rank5]: Traceback (most recent call last):",
                '[rank5]:   File "/app/train.py", line 88, in <module>',
                "[rank5]: KeyError: 'labels'",
                *job(level="WARN"),
                *elastic(5, "gpu02", 1, 5201),
            ],
            "gpu01-dmesg.txt": dmesg_oom(311),
        },
        kind="application-exception",
    ),
]  # fmt: skip


def _described(dead: str) -> list[str]:
    """A pod of two containers, of which one has the GPU."""
    ended = ["    State:          Terminated", "      Reason:       OOMKilled", "      Exit Code:    137"]
    lines = ["Name:             trainer-worker-2", "Namespace:        ml", "Status:           Running", "Containers:"]
    for name, gpu in (("pytorch", ["      nvidia.com/gpu:  1"]), ("fluent-bit", [])):
        state = ended if name == dead else ["    State:          Running"]
        lines += [
            f"  {name}:",
            "    Container ID:   containerd://5f0c",
            *state,
            "    Limits:",
            *gpu,
            "      memory: 4Gi",
        ]
    return lines


_RAISED = ["Traceback (most recent call last):", '  File "/app/train.py", line 88, in main', "KeyError: 'labels'"]
_CANCELLED = [
    "slurmstepd: error: *** JOB 4410 ON gpu01 CANCELLED AT 2026-11-17T12:30:00 DUE TO TIME LIMIT ***",
    "srun: error: gpu01: tasks 0-3: Terminated",
]
_BROKEN = (
    "gpu02:5201:6201 [1] proxy.cc:1085 NCCL WARN Cuda failure 214 'uncorrectable ECC error encountered'",
    "/opt/run.sh: line 14: 5201 Killed                  python3 train.py",
)
DEATHS += [
    Death(
        "a container beside that of the rank was killed, and another rank raised",
        {
            **_OF_PODS,
            "trainer-worker-1.log": [*_OF_PODS["trainer-worker-1.log"], *_RAISED],
            "describe.txt": _described("fluent-bit"),
        },
        kind="application-exception",
        ranks=(1,),
        hosts=("trainer-worker-1",),
    ),
    Death(
        "Docker Compose numbers the container of a service, which its lines call their host",
        {
            "compose.log": [
                *(f"{p}-1  | {line}" for p in PODS for line in _OF_PODS[f"{p}.log"]),
                "trainer-worker-1-1 exited with code 137",
            ],
            "dmesg.txt": dmesg_oom(884122),
        },
        ranks=(1,),
        hosts=("trainer-worker-1",),
        words="memory",
    ),
    Death(
        "the container with the GPU was killed",
        {
            **{k: [x.replace("peer trainer-worker-1", "peer trainer-worker-2") for x in v] for k, v in _OF_PODS.items()},
            "describe.txt": _described("pytorch"),
        },
        ranks=(2,),
        hosts=("trainer-worker-2",),
    ),
    Death(
        "kubectl's prefix names the container of the ranks, and of the exception",
        {
            "logs.txt": [
                *(f"[pod/{p}/pytorch] {line}" for p in PODS for line in _OF_PODS[f"{p}.log"]),
                *(f"[pod/trainer-worker-2/pytorch] {line}" for line in _RAISED),
            ],
            "describe.txt": [line for line in _described("fluent-bit") if "gpu" not in line],
        },
        kind="application-exception",
        ranks=(2,),
        hosts=("trainer-worker-2",),
    ),
    Death(
        "few closed connections: a kill before an abort of a rank elsewhere",
        {
            "job.log": [
                *job(echo=False),
                "[2026-11-17 12:00:09] gpu01:5100:5800 [0] misc/socket.cc:71 NCCL WARN socketProgress: Connection closed "
                "by remote peer gpu01<40110>",
                *elastic(2, "gpu01", -6, PIDS[2], "12:00:11"),
            ],
            "gpu02-dmesg.txt": dmesg_oom(280146),
        },
        ranks=(),
    ),
    Death(
        "broken memory of a GPU, without a clock, and the time limit hours later",
        {"job.log": [*job(echo=False), _BROKEN[0], *_CANCELLED]},
        kind="cuda-hardware-error",
    ),
    Death(
        "a kill, and the time limit hours later",
        {"job.log": [*job(echo=False), _BROKEN[1], *_CANCELLED]},
    ),
]  # fmt: skip


@pytest.mark.parametrize("death", DEATHS, ids=lambda d: d.name)
def test_a_death_is_told_once_with_all_that_is_known(tmp_path: Path, death: Death) -> None:
    for name, lines in death.files.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    findings = nccl_insight.analyze([tmp_path]).findings
    told = [(f.severity.value, f.name, f.title) for f in findings]
    loud = [f for f in findings if f.severity.value in ("warning", "error")]
    assert loud, told
    first = loud[0]
    assert (first.name, first.ranks, first.hosts) == (death.kind, death.ranks, death.hosts), told
    assert death.words in first.title, told
    assert first.first_time is None or "12:00:0" in first.first_time, told
    assert not [e.text for e in first.evidence if e.text.startswith("Root Cause")]
    assert [f.name for f in loud if f.severity.value == "error"] == [death.kind], told


@pytest.mark.parametrize(
    ("name", "diagnosis", "title", "line", "step"),
    [
        ("kill", "process-killed", "Rank 0 on vm was killed", None, "dmesg"),
        ("segv", "process-crashed", "Rank 0 on vm crashed: a segmentation fault", None, "PYTHONFAULTHANDLER"),
        (
            "nan",
            "application-exception",
            "Rank 0 on vm raised RuntimeError: loss is nan",
            "loss is nan",
            "loss scaling",
        ),
        ("oom", "application-exception", "Rank 0 on vm raised torch.OutOfMemoryError", "Tried to alloc", "nvidia-smi"),
        ("assert", "cuda-unhandled", "index out of bounds", "Assertion `", "token ids"),
    ],
)
def test_what_a_rank_says_goes_before_what_torchrun_says_of_it(
    name: str, diagnosis: str, title: str, line: str | None, step: str
) -> None:
    """Runs under torchrun on a machine with one GPU, where torchrun calls the host localhost."""
    found = nccl_insight.analyze(TORCHRUN / "h100" / f"{name}.log").findings
    first = found[0]
    assert (first.name, first.ranks, first.hosts) == (diagnosis, (0,), ("vm",))
    assert title in first.title
    assert line is None or line in first.evidence[0].text
    assert any(step in one.text for one in first.steps)
    assert all("localhost" not in one.title for one in found)


def test_an_exception_that_names_a_step_is_no_progress() -> None:
    analysis = nccl_insight.analyze(TORCHRUN / "h100" / "nan.log")
    assert analysis.run.table("progress")["counter"].to_list() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("name", "diagnosis", "title", "ranks", "step"),
    [
        ("kill", "process-killed", "Rank 1 was killed", (1,), "dmesg"),
        ("exit", "application-exception", "Rank 3 ended with exit code 3", (3,), "this rank's own output"),
        ("memory", "application-exception", "can't allocate memory", (0,), "memory.max"),
        (
            "late",
            "collective-not-reached",
            "Rank 2 printed nothing, while ranks 0-1,3 timed out",
            (2,),
            "the host of rank 2",
        ),
    ],
)
def test_the_summary_of_newer_torchrun_names_the_rank(
    name: str, diagnosis: str, title: str, ranks: tuple[int, ...], step: str
) -> None:
    """torch 2.13 puts the name of the signal, or a blank, behind the number of the process."""
    first = nccl_insight.analyze(TORCHRUN / "gloo-2.13" / f"{name}.log").findings[0]
    assert (first.name, first.ranks) == (diagnosis, ranks)
    assert title in first.title
    assert any(step in f"{one.text} {one.where}" for one in first.steps)


def test_a_cancelled_job_names_no_host_and_no_signal(tmp_path: Path) -> None:
    cancelled = "slurmstepd: error: *** STEP 4410.0 ON gpu01 CANCELLED AT 2026-11-17T12:00:04 ***"
    (tmp_path / "job.log").write_text("".join(f"{line}\n" for line in [*job(echo=False), cancelled]))
    (first,) = [f for f in nccl_insight.analyze([tmp_path]).findings if f.name == "job-ended-by-scheduler"]
    assert (first.hosts, first.ranks) == ((), ())
    assert first.title.startswith("The job was cancelled")
