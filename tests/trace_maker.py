"""Makes Kineto traces of synthetic jobs, with delays planted where a test wants them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

BASE_NS = 1_767_189_312_000_000_000
Delay = Callable[[int, int], float]
"""Microseconds by (rank, iteration)."""


def never(_rank: int, _iteration: int) -> float:
    return 0.0


def event(cat: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    """A complete event; ``device`` and ``stream`` in ``args`` become pid and tid as Kineto writes them."""
    return {
        "ph": "X", "cat": cat, "name": name, "pid": args.get("device", 1), "tid": args.get("stream", 1), "ts": ts,
        "dur": dur, "args": args,
    }  # fmt: skip


def all_reduce(ts: float, dur: float, elements: int, ranks: list[int], seq: int | None = None) -> dict[str, Any]:
    """An AllReduce kernel with the metadata that torch 2.3 and later writes."""
    extra = {} if seq is None else {"Seq": seq}
    return event(
        "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", ts, dur, device=0,
        stream=20, correlation=int(ts), **{
            "Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements,
            "Group size": len(ranks), "dtype": "Float", "Process Group Name": "0",
            "Process Group Ranks": str(ranks), **extra,
        },
    )  # fmt: skip


def trace(rank: int, world: int, events: list[dict[str, Any]], **header: Any) -> dict[str, Any]:
    """The whole file; ``header`` overrides."""
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": i, "name": "NVIDIA H100 80GB HBM3"} for i in range(8)],
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world},
        "host_name": "node-a",
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": BASE_NS,
        **header,
        "traceEvents": events,
    }


def late_gpu(late: int) -> list[list[tuple[bool, float, float]]]:
    """Work of four GPUs, of which ``late`` computes 300 us longer each time: whether it reduces, from, to (us)."""
    rng = random.Random(5)
    work: list[list[tuple[bool, float, float]]] = [[], [], [], []]
    now = 0.0
    for _ in range(60):
        arrive = [now + 1000 + rng.uniform(0, 20) + (300 if gpu == late else 0) for gpu in range(4)]
        end = max(arrive) + 200
        for rows, start in zip(work, arrive, strict=True):
            rows += [(False, now, start), (True, start, end)]
        now = end
    return work


def write(path: Path, content: Any) -> Path:
    """Writes JSON as ``json.dumps`` does (one line)."""
    path.write_text(json.dumps(content))
    return path


def job(
    folder: Path,
    ranks: int = 4,
    iterations: int = 100,
    late: Delay = never,
    slow: Callable[[int], float] = lambda _iteration: 0.0,
    jitter_us: float = 30.0,
    transfer_us: float = 300.0,
    steps: bool = True,
    seed: int = 1,
    host: Callable[[int], str | None] = lambda _rank: "node-a",
    clock_us: Callable[[int], float] = lambda _rank: 0.0,
) -> list[Path]:
    """One AllReduce an iteration after 3 ms of compute: everybody waits in it until the last has arrived.

    ``late`` delays the arrival of a rank, ``slow`` lengthens the transfer of all; ``clock_us`` shifts a rank's clock.
    """
    rng = random.Random(seed)
    events: dict[int, list[dict[str, Any]]] = {r: [] for r in range(ranks)}
    now = 1_000_000.0
    for i in range(iterations):
        arrivals = {r: now + 3000 + rng.random() * jitter_us + late(r, i) for r in range(ranks)}
        end = max(arrivals.values()) + transfer_us + slow(i)
        for r, arrival in arrivals.items():
            t = clock_us(r)
            own = end + rng.random()
            events[r].append(event("kernel", "gemm", now + t, 2900, device=0, stream=7, correlation=i))
            events[r].append(all_reduce(arrival + t, own - arrival, 1 << 20, list(range(ranks))))
            if steps:
                events[r].append(event("user_annotation", f"ProfilerStep#{i}", now + t, end - now + 40))
        now = end + 50
    paths = []
    for r in range(ranks):
        rng.shuffle(events[r])
        header = {"host_name": host(r)} if host(r) else {}
        content = trace(r, ranks, events[r], **header)
        if not host(r):
            del content["host_name"]
        paths.append(write(folder / f"trace_{r}.json", content))
    return paths
