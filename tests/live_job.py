"""A job that runs while it is watched: its files grow by a clock that passes by sleeping only."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nccl_insight.live.watch import loop
from nccl_insight.live.watch.progress import Event, Watch


def opened(rank: int, ranks: int, host: str, pid: int, comm: int = 0, state: str = "COMPLETE") -> str:
    return (
        f"{host}:{pid}:{pid} [{rank % 8}] NCCL INFO ncclCommInitRank comm 0x55e439c{comm}{rank:04x} rank {rank} nranks "
        f"{ranks} cudaDev {rank % 8} nvmlDev {rank % 8} busId {(rank % 8 + 1) << 12:x} "
        f"commId 0x785ea780c57a1c{comm:02x} - Init {state}\n"
    )


def call(rank: int, ranks: int, host: str, pid: int, number: int, comm: int = 0, op: str = "AllReduce") -> str:
    return (
        f"{host}:{pid}:{pid} [{rank % 8}] NCCL INFO {op}: opCount {number:x} sendbuff 0x7fdd5be00000 recvbuff "
        f"0x7fdc5bc00000 count 1048576 datatype 7 op 0 root 0 comm 0x55e439c{comm}{rank:04x} [nranks={ranks}] "
        "stream 0x55e439f4b3f0\n"
    )


def closed(rank: int, ranks: int, host: str, pid: int, comm: int = 0) -> str:
    return (
        f"{host}:{pid}:{pid} [{rank % 8}] NCCL INFO comm 0x55e439c{comm}{rank:04x} rank {rank} nranks {ranks} cudaDev "
        f"{rank % 8} busId {(rank % 8 + 1) << 12:x} - Destroy COMPLETE\n"
    )


@dataclass
class Job:
    """One file per rank, one operation every ``step_s``. ``at``: what happens when so many seconds have passed.

    ``pauses``: (from, to) in which nobody writes. ``stopped``: ranks that write no more; the others wait for them after
    one more operation. ``late``: rank -> seconds after which its lines show.
    """

    folder: Path
    ranks: int
    step_s: float = 0.5
    pauses: tuple[tuple[float, float], ...] = ()
    at: dict[float, Callable[[Job], None]] = field(default_factory=dict)
    late: dict[int, float] = field(default_factory=dict)
    stopped: set[int] = field(default_factory=set)
    over: bool = False
    time: float = 0.0
    begun: int = 0
    waiting: bool = False
    busy: Callable[[], float] = lambda: 0.0
    held: list[tuple[float, int, str]] = field(default_factory=list)
    pid: int = 1000

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.paths = [self.folder / f"nccl.{self.host(r)}.{1000 + r}.log" for r in range(self.ranks)]
        for rank in range(self.ranks):
            self.add(rank, opened(rank, self.ranks, self.host(rank), self.pid + rank))

    def host(self, rank: int) -> str:
        return f"node{rank // 8:03}"

    def add(self, rank: int, text: str) -> None:
        with self.paths[rank].open("a") as stream:
            stream.write(text)

    def finish(self) -> None:
        for rank in range(self.ranks):
            self.add(rank, closed(rank, self.ranks, self.host(rank), self.pid + rank))
        self.over = True

    def run_to(self, end: float) -> None:
        while self.begun * self.step_s <= end - sum(b - a for a, b in self.pauses if b <= end):
            moment = self.begun * self.step_s + sum(b - a for a, b in self.pauses if a <= self.begun * self.step_s)
            if moment > end:
                break
            for when in sorted(w for w in self.at if w <= moment):
                self.at.pop(when)(self)
            if not (self.over or self.waiting):
                for rank in range(self.ranks):
                    if rank not in self.stopped:
                        line = call(rank, self.ranks, self.host(rank), self.pid + rank, self.begun)
                        self.held.append((moment + self.late.get(rank, 0.0), rank, line))
                self.waiting = bool(self.stopped)
            self.begun += 1
        due = [item for item in self.held if item[0] <= end]
        self.held = [item for item in self.held if item[0] > end]
        texts: dict[int, str] = {}
        for _, rank, line in due:
            texts[rank] = texts.get(rank, "") + line
        for rank, text in texts.items():
            self.add(rank, text)

    # The clock

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        self.run_to(self.time)

    def watched(
        self, for_s: float, interval_s: float = 5.0, patience_s: float = 10.0, stall_s: float = 60.0
    ) -> tuple[list[tuple[float, Event]], Watch]:
        """Events with the time at which they were said, and the state at the end."""
        state = Watch(patience_s, stall_s)
        self.run_to(0.0)
        job = loop.Job([str(self.folder)])
        events = [
            (self.time, event)
            for event in loop.watch(job, state, interval_s, for_s, clock=loop.Clock(self.now, self.sleep, self.busy))
        ]
        return events, state


def rename(job: Job) -> None:
    """logrotate's way: the process writes on into the renamed file until it is told, here into a new one."""
    for path in job.paths:
        path.rename(path.with_name(path.name + ".1"))


def copy_and_truncate(job: Job) -> None:
    for path in job.paths:
        shutil.copy(path, path.with_name(path.name + ".1"))
        os.truncate(path, 0)


def new_file(job: Job) -> None:
    """kubelet's way: a new file, the old one packed beside it under another name or gone."""
    for path in job.paths:
        path.unlink()


def warn(job: Job) -> None:
    job.over = True
    job.add(
        1,
        "node000:1001:1001 [1] misc/ibvwrap.cc:1 NCCL WARN NET/IB: Got completion from peer 10.0.0.3<44321> "
        "with status=12 opcode=0 len=0 vendor err 129 (Recv)\n",
    )


def kill(job: Job) -> None:
    job.over = True
    job.add(1, "srun: error: node000: task 1: Killed\n")


def stop(job: Job) -> None:
    job.over = True


def late(count: int) -> dict[int, float]:
    """The lines of one host come half a minute late."""
    return dict.fromkeys(range(min(8, count // 2)), 30.0)


KINDS: dict[str, Callable[[Path, int], Job]] = {
    "healthy": Job,
    "checkpoint of three minutes": lambda d, n: Job(d, n, pauses=((60.0, 240.0),)),
    "the second checkpoint is longer": lambda d, n: Job(d, n, pauses=((60.0, 230.0), (300.0, 600.0))),
    "renamed": lambda d, n: Job(d, n, at={60.0: rename}),
    "copied and emptied": lambda d, n: Job(d, n, at={60.0: copy_and_truncate}),
    "new files": lambda d, n: Job(d, n, at={60.0: new_file}),
    "lines of one host come late": lambda d, n: Job(d, n, late=late(n)),
    "late, and a checkpoint": lambda d, n: Job(d, n, late=late(n), pauses=((100.0, 200.0),)),
    "ends well": lambda d, n: Job(d, n, at={60.0: Job.finish}),
    "one rank stops": lambda d, n: Job(d, n, at={60.0: lambda job: job.stopped.add(5)}),
    "all stop": lambda d, n: Job(d, n, at={60.0: stop}),
    "a warning, then nothing": lambda d, n: Job(d, n, at={60.0: warn}),
    "killed": lambda d, n: Job(d, n, at={60.0: kill}),
}
QUIET = tuple(KINDS)[:8]

if __name__ == "__main__":  # a table of all kinds: python -m tests.live_job 8,64,512
    import sys
    import tempfile

    base = Path(tempfile.mkdtemp(dir="/dev/shm"))
    for count in map(int, sys.argv[1].split(",")):
        for name, make in KINDS.items():
            shutil.rmtree(base, ignore_errors=True)
            job = make(base, count)
            job.busy = time.process_time
            cpu = time.process_time()
            events, state = job.watched(700.0)
            cpu = 100 * (time.process_time() - cpu) / job.time
            said = ", ".join(f"{event.kind} at {moment:.0f} s" for moment, event in events) or "nothing said"
            print(f"{count:4} {name:32} CPU {cpu:4.1f} %, exit {int(state.troubled)}, {state.state}: {said}")
    shutil.rmtree(base)
