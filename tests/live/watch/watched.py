"""A job that is watched: a stand-in for the RAS service of NCCL, a clock, and what is said."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable

from nccl_insight.live.watch import loop
from nccl_insight.live.watch.progress import Watch


class Service:
    """Speaks the client protocol of NCCL's RAS on the loopback; each status is the next report, the last one stays."""

    def __init__(self, reports: list[str], json_form: bool = True) -> None:
        self.reports, self.json_form = reports, json_form
        self.heard: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            with link, link.makefile("rwb", buffering=0) as stream:
                for raw in stream:
                    command = raw.decode().strip()
                    self.heard.append(command)
                    if command.startswith("CLIENT PROTOCOL"):
                        stream.write(b"SERVER PROTOCOL 2\n")
                    elif command.startswith("SET FORMAT"):
                        stream.write(b"OK\n" if self.json_form else b"ERROR: Unknown command SET FORMAT json\n")
                    elif command == "VERBOSE STATUS":
                        report = self.reports.pop(0) if len(self.reports) > 1 else self.reports[0]
                        stream.write(report.encode())
                        break
                    else:
                        stream.write(b"ERROR: Unknown command\n")

    def close(self) -> None:
        self._listener.close()


def report(counts: list[int], missing: tuple[int, ...] = (), dead: bool = False) -> str:
    """A status as NCCL 2.28.7 and later write it."""

    def member(rank: int, **more: object) -> dict[str, object]:
        return {"rank": rank, "host": f"10.0.0.{rank // 2 + 1}", "pid": 5000 + rank, "cuda_dev": rank % 2, **more}

    status = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
    return json.dumps(
        {
            "nccl_version": "2.29.1", "cuda_runtime_version": 13000, "timestamp": "2026-01-02 03:04:05",
            "communicators_count": 1,
            "communicators": [
                {
                    "hash": "0xae94423cfbb2ef4a", "size": len(counts), "ranks_count": len(counts) - len(missing),
                    "missing_ranks_count": len(missing),
                    "ranks": [
                        member(r, status=status, collective_counts={"AllReduce": c, "AllGather": 2})
                        for r, c in enumerate(counts) if r not in missing
                    ],
                    "missing_ranks": [
                        member(r, status={"unresponsive": True, "considered_dead": dead}) for r in missing
                    ],
                }
            ],
            "ras": {"collection_time_sec": 0.0, "timeouts_count": 0},
        },
        indent=2,
    )  # fmt: skip


class Clock:
    """A time that passes only by sleeping."""

    def __init__(self, during: dict[int, Callable[[], None]] | None = None) -> None:
        self.time, self.turns, self.during = 1000.0, 0, during or {}

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        self.turns += 1
        self.during.get(self.turns, lambda: None)()

    def text(self) -> str:
        return f"+{self.time - 1000:.0f}"


def watched(
    paths: list[str], address: tuple[str, int] | None, seconds: float, clock: Clock, stall: float = 30.0
) -> tuple[list[str], Watch]:
    state = Watch(10.0, stall)
    events = loop.watch(
        loop.Job(paths, address), state, 5.0, seconds, clock=loop.Clock(clock.now, clock.sleep, lambda: 0.0)
    )
    return [line for event in events for line in (f"{clock.text()} {event.text}", *event.commands)], state


# --- files ---------------------------------------------------------------------------------------------------


def start(rank: int) -> str:
    return (
        f"gpu01:{400 + rank}:{400 + rank} [{rank}] NCCL INFO ncclCommInitRank comm 0x55d0c0a0000{rank} "
        f"rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} busId {rank + 1}000 commId 0x8d2a9c4be1f07733 "
        "- Init COMPLETE\n"
    )


def call(rank: int, number: int) -> str:
    return (
        f"gpu01:{400 + rank}:{400 + rank} [{rank}] NCCL INFO AllReduce: opCount {number:x} sendbuff 0x7f0000000000 "
        f"recvbuff 0x7f0000000000 count 1048576 datatype 7 op 0 root 0 comm 0x55d0c0a0000{rank} [nranks=2] "
        f"stream 0x55d0c0b0000{rank}\n"
    )
