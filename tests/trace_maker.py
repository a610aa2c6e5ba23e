"""Makes Kineto traces of synthetic jobs, with delays planted where a test wants them."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
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


_HEAD = re.compile(r"(\d+) ranks? on ([\w ]+), (\d+) steps?")
_LINE = re.compile(r"([\d\- ]+|all|in turn): (\w+)(?: (\d+) MiB)?,? (\d+) us(?: in ([\d\- ]+))?(?:, sent ([\d ]+))?")


def told(text: str, folder: Path) -> list[Path]:
    """The traces of a job that a few lines tell: what each rank does in each step, in order.

    ``4 ranks on gpu01, 40 steps``, then lines such as ``all: compute 3000 us``, ``2: compute 2000 us in 20-39`` (more
    of it), ``in turn: idle 500 us`` (another rank in each step), ``0-3: AllReduce 4 MiB, 300 us`` (from when the last
    has come), ``all: AllToAll 4 MiB, 300 us, sent 3 1`` (parts), ``all: copy 400 us`` (from pageable memory). Last,
    ``without host_name`` leaves out a key of the headers, and ``cut 1`` the second half of the file of rank 1.

    ``4 ranks, dumps`` begins Flight Recorder dumps: ``0-3: issued 35, finished 34``.
    """
    head, *lines = text.splitlines()
    if head.endswith(" ranks, dumps"):
        return [write(folder / f"dump_{r}.json", dump) for r, dump in _dumps(int(head.split()[0]), lines)]
    found = _HEAD.fullmatch(head)
    assert found, head
    world, hosts, steps = int(found[1]), found[2].split(), int(found[3])
    events: dict[int, list[dict[str, Any]]] = {r: [] for r in range(world)}
    at = dict.fromkeys(events, 1_000_000.0)
    for step in range(steps):
        begin = dict(at)
        for line in lines:
            if (part := _LINE.fullmatch(line)) and (not part[5] or step in numbers(part[5])):
                who = [step % world] if part[1] == "in turn" else range(world) if part[1] == "all" else numbers(part[1])
                _act(events, at, list(who), part)
        for r, start in begin.items():
            events[r].append(event("user_annotation", f"ProfilerStep#{step}", start, at[r] - start - 1))
    paths = []
    for r, own in events.items():
        content = trace(r, world, own, host_name=hosts[r * len(hosts) // world])
        for line in lines:
            if line.startswith("without "):
                del content[line.split()[1]]
        paths.append(write(folder / f"trace_{r}.json", content))
        if f"cut {r}" in lines:
            paths[-1].write_bytes(paths[-1].read_bytes()[: paths[-1].stat().st_size // 2])
    assert all(_LINE.fullmatch(line) or line.startswith(("without ", "cut ")) for line in lines), lines
    return paths


def _act(events: dict[int, list[dict[str, Any]]], at: dict[int, float], who: list[int], part: re.Match[str]) -> None:
    what, took = part[2], float(part[4])
    end = max(at[r] for r in who) + took
    for r in who:
        if what[0].isupper():
            item = all_reduce(at[r], end - at[r], int(part[3]) << 18, who)
            item["args"]["Process Group Name"] = str(who[0])
            if what == "AllToAll":
                item["name"] = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
                item["args"] |= {"Collective name": "all_to_allv"}
            if part[6]:
                whole = sum(map(int, part[6].split()))
                split = [int(n) * (int(part[3]) << 18) // whole for n in part[6].split()]
                item["args"]["In split size"] = str(split)
            events[r].append(item)
            at[r] = end
            continue
        if what == "compute":
            events[r].append(event("kernel", "gemm", at[r], took - 1, device=0, stream=7))
        elif what == "copy":
            events[r].append(
                event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", at[r], took, device=0, stream=9, bytes=1 << 20)
            )
        at[r] += took


def _dumps(world: int, lines: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    for line in lines:
        part = re.fullmatch(r"([\d\- ]+): issued (\d+), finished (\d+)", line)
        assert part, line
        issued, finished = int(part[2]), int(part[3])
        entries = [
            {
                "record_id": n, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": n,
                "p2p_seq_id": 0, "op_id": n, "profiling_name": "nccl:all_reduce", "time_created_ns": BASE_NS + n,
                "is_p2p": False, "input_sizes": [[1024, 2]], "output_sizes": [[1024, 2]], "input_dtypes": ["Float"],
                "output_dtypes": ["Float"], "state": "completed" if n <= finished else "scheduled",
                "time_discovered_started_ns": None, "time_discovered_completed_ns": None, "retired": n <= finished,
                "timeout_ms": 600_000,
            }
            for n in range(issued - 2, issued + 1)
        ]  # fmt: skip
        group = {"name": "0", "desc": "default_pg", "ranks": str(list(range(world)))}
        for rank in numbers(part[1]):
            yield rank, {"version": "2.10", "entries": entries, "pg_config": {"0": group}, "pg_status": {}}


def numbers(text: str) -> tuple[int, ...]:
    """The numbers of "0-3 7"."""
    ends = [part.partition("-") for part in text.split()]
    return tuple(n for first, _, last in ends for n in range(int(first), int(last or first) + 1))
