"""One rank of a capture: measures collectives and host copies, records a profiler trace. Runs in its own process.

Only this module imports torch, and only inside functions. Every line of its result file is a JSON object with a
``kind``; lines are written as they are known, so that a hang leaves what came before.
"""

from __future__ import annotations

import datetime
import json
import os
import socket
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from nccl_insight.bandwidth import busbw_factor
from nccl_insight.live.capture.plan import Plan

FORMAT_VERSION = 1
_NAMES = {
    "all_reduce": "AllReduce", "all_gather": "AllGather", "reduce_scatter": "ReduceScatter",
    "broadcast": "Broadcast", "all_to_all": "AllToAll", "sendrecv": "SendRecv",
}  # fmt: skip
_ELEMENT_BYTES = 4


class Recorder:
    """Appends one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def add(self, kind: str, **values: object) -> None:
        """Writes a line and flushes it."""
        self._file.write(json.dumps({"kind": kind, **values}) + "\n")
        self._file.flush()


def probe() -> dict[str, object]:
    """Versions and devices as torch sees them."""
    import torch

    available = bool(torch.cuda.is_available())
    nccl = None
    if available and torch.distributed.is_available() and torch.distributed.is_nccl_available():
        nccl = ".".join(str(v) for v in torch.cuda.nccl.version())
    return {
        "torch": str(torch.__version__), "cuda": torch.version.cuda, "nccl": nccl, "cuda_available": available,
        "gloo": bool(torch.distributed.is_available() and torch.distributed.is_gloo_available()),
        "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if available else [],
    }  # fmt: skip


def _seconds_per_iteration(
    torch: Any, dist: Any, plan: Plan, device: Any, action: Callable[[], None], slow: bool
) -> float:
    """Mean time of one operation on this rank: CUDA events, or the wall clock on CPUs."""
    for _ in range(plan.warmup):
        action()
    dist.barrier()
    if device.type == "cuda":
        torch.cuda.synchronize()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(plan.iterations):
            if slow:
                time.sleep(plan.slow_ms / 1e3)
            action()
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 / plan.iterations
    started = time.perf_counter()
    for _ in range(plan.iterations):
        if slow:
            time.sleep(plan.slow_ms / 1e3)
        action()
    return (time.perf_counter() - started) / plan.iterations


def _operation(
    torch: Any, dist: Any, op: str, elements: int, device: Any
) -> tuple[Callable[[], None], Callable[[], int]]:
    """The operation on buffers of ``elements`` in all, and a check that counts wrong elements of this rank."""
    rank, world = dist.get_rank(), dist.get_world_size()
    share = max(1, elements // world)

    def full(count: int, value: float) -> Any:
        return torch.full((count,), value, dtype=torch.float32, device=device)

    def wrong(got: Any, want: Any) -> int:
        return int((got != want).sum().item())

    if op == "all_reduce":
        data = full(elements, 0.0)

        def check_reduce() -> int:
            fresh = full(elements, float(rank + 1))
            dist.all_reduce(fresh)
            return wrong(fresh, float(world * (world + 1) // 2))

        return (lambda: dist.all_reduce(data) and None), check_reduce
    if op == "broadcast":
        data = full(elements, 0.0)

        def check_broadcast() -> int:
            fresh = full(elements, float(rank + 1))
            dist.broadcast(fresh, src=0)
            return wrong(fresh, 1.0)

        return (lambda: dist.broadcast(data, src=0) and None), check_broadcast
    if op == "all_gather":
        mine, out = full(share, float(rank + 1)), full(share * world, 0.0)
        want = torch.arange(1, world + 1, dtype=torch.float32, device=device).repeat_interleave(share)

        gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor

        def check_gather() -> int:
            gather(out, mine)
            return wrong(out, want)

        return (lambda: gather(out, mine) and None), check_gather
    if op == "reduce_scatter":
        source, part = full(share * world, float(rank + 1)), full(share, 0.0)

        scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

        def check_scatter() -> int:
            scatter(part, source)
            return wrong(part, float(world * (world + 1) // 2))

        return (lambda: scatter(part, source) and None), check_scatter
    if op == "all_to_all":
        source = (rank * world + torch.arange(world, dtype=torch.float32, device=device)).repeat_interleave(
            share
        )
        out = full(share * world, 0.0)
        want = (torch.arange(world, dtype=torch.float32, device=device) * world + rank).repeat_interleave(
            share
        )

        def check_alltoall() -> int:
            dist.all_to_all_single(out, source)
            return wrong(out, want)

        return (lambda: dist.all_to_all_single(out, source) and None), check_alltoall
    mine, out = full(elements, float(rank + 1)), full(elements, 0.0)

    def exchange() -> None:
        pair = [
            dist.P2POp(dist.isend, mine, (rank + 1) % world), dist.P2POp(dist.irecv, out, (rank - 1) % world),
        ]  # fmt: skip
        for work in dist.batch_isend_irecv(pair):
            work.wait()

    def check_exchange() -> int:
        exchange()
        return wrong(out, float((rank - 1) % world + 1))

    return exchange, check_exchange


def _measure(torch: Any, dist: Any, plan: Plan, device: Any, op: str, size: int) -> dict[str, object]:
    """One row: times over all ranks and elements that came out wrong, agreed between ranks."""
    world = dist.get_world_size()
    whole = op in ("all_gather", "reduce_scatter", "all_to_all")
    elements = max(1, size // _ELEMENT_BYTES)
    elements = max(world, elements // world * world) if whole else elements
    action, check = _operation(torch, dist, op, elements, device)
    if op == "sendrecv" and world == 1:
        return {}
    bad = check()
    seconds = _seconds_per_iteration(torch, dist, plan, device, action, dist.get_rank() == plan.slow_rank)
    host = float(zlib.crc32(socket.gethostname().encode()))
    mine = torch.tensor([seconds, float(bad), host], dtype=torch.float64, device=device)
    every = [torch.zeros_like(mine) for _ in range(world)]
    dist.all_gather(every, mine)
    times = [float(t[0]) for t in every]
    mean = sum(times) / world
    size = elements * _ELEMENT_BYTES
    algbw = size / mean / 1e9 if mean > 0 else None
    factor = busbw_factor(_NAMES[op], world)
    return {
        "op": _NAMES[op], "size_bytes": size, "count": elements // world if whole else elements, "dtype": "float32",
        "red_op": "sum" if op in ("all_reduce", "reduce_scatter") else None, "root": 0 if op == "broadcast" else None,
        "time_us": mean * 1e6, "time_min_us": min(times) * 1e6, "time_max_us": max(times) * 1e6,
        "algbw_gbps": algbw, "busbw_gbps": algbw * factor if algbw is not None and factor else None,
        "wrong": int(sum(float(t[1]) for t in every)), "nranks": world,
        "n_hosts": len({float(t[2]) for t in every}),
        "in_place": op in ("all_reduce", "broadcast"),
    }  # fmt: skip


def _copies(torch: Any, device: Any) -> Iterator[dict[str, object]]:
    """Host-to-device and device-to-host bandwidth of this rank's GPU, pinned and pageable."""
    size = 256 << 20
    on_gpu = torch.empty(size, dtype=torch.uint8, device=device)
    for pinned in (True, False):
        on_host = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
        for direction, target, source in (("h2d", on_gpu, on_host), ("d2h", on_host, on_gpu)):
            target.copy_(source)
            torch.cuda.synchronize()
            started = time.perf_counter()
            for _ in range(5):
                target.copy_(source, non_blocking=pinned)
            torch.cuda.synchronize()
            yield {
                "direction": direction, "pinned": pinned, "size_bytes": size,
                "gbps": 5 * size / (time.perf_counter() - started) / 1e9,
            }  # fmt: skip


def _peers(torch: Any) -> Iterator[dict[str, object]]:
    """Peer access and copy bandwidth between every two GPUs that this process sees."""
    count = torch.cuda.device_count()
    size = 128 << 20
    for src in range(count):
        for dst in range(count):
            if src == dst:
                continue
            source = torch.empty(size, dtype=torch.uint8, device=f"cuda:{src}")
            target = torch.empty(size, dtype=torch.uint8, device=f"cuda:{dst}")
            target.copy_(source)
            torch.cuda.synchronize(dst)
            torch.cuda.synchronize(src)
            started = time.perf_counter()
            for _ in range(5):
                target.copy_(source, non_blocking=True)
            torch.cuda.synchronize(src)
            torch.cuda.synchronize(dst)
            yield {
                "src": src, "dst": dst, "peer_access": bool(torch.cuda.can_device_access_peer(src, dst)),
                "size_bytes": size, "gbps": 5 * size / (time.perf_counter() - started) / 1e9,
            }  # fmt: skip


def _profile(torch: Any, dist: Any, plan: Plan, device: Any, path: Path) -> None:
    """A profiler trace of some steps: a little compute, then an all-reduce."""
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.type == "cuda" else [])
    data = torch.zeros(max(1, plan.profile_bytes // _ELEMENT_BYTES), device=device)
    left = torch.zeros(256, 256, device=device)
    with profile(activities=activities):  # the first start takes up to a second, not the same on all ranks
        left = left @ left
    dist.barrier()
    with profile(activities=activities, record_shapes=True) as recorder:
        for _ in range(plan.profile_steps):
            for _ in range(4):
                left = left @ left
            if dist.get_rank() == plan.slow_rank:
                time.sleep(plan.slow_ms / 1e3)
            dist.all_reduce(data)
            if device.type == "cuda":
                torch.cuda.synchronize()
            recorder.step()
    recorder.export_chrome_trace(str(path))


def measure(plan: Plan, directory: Path) -> None:
    """Everything that one rank does; the results of all ranks are in rank 0's file."""
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    world = int(os.environ["WORLD_SIZE"])
    recorder = Recorder(directory / f"capture.rank{rank}.jsonl")
    recorder.add(
        "head", nccl_insight_capture=FORMAT_VERSION, rank=rank, world_size=world, local_rank=local,
        host=socket.gethostname(), pid=os.getpid(), backend=plan.backend, slow_rank=plan.slow_rank,
    )  # fmt: skip
    import torch
    import torch.distributed as dist

    cuda = plan.backend == "nccl"
    device = torch.device("cpu")
    if cuda:  # a launcher may show each process its own GPU only
        device = torch.device("cuda", local % max(1, torch.cuda.device_count()))
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    seen = probe()
    recorder.add(
        "versions", torch=seen["torch"], cuda=seen["cuda"], nccl=seen["nccl"],
        gpu=torch.cuda.get_device_name(device) if cuda else None,
    )  # fmt: skip
    if cuda and plan.host_copies:
        for row in _copies(torch, device):
            recorder.add("copy", rank=rank, **row)
        for row in _peers(torch) if local == 0 else ():
            recorder.add("peer", **row)
    dist.init_process_group(
        plan.backend, init_method=plan.rendezvous or "env://", rank=rank, world_size=world,
        timeout=datetime.timedelta(seconds=plan.timeout_s),
    )  # fmt: skip
    recorder.add("ready", rank=rank)
    for op in plan.ops:
        for size in plan.sizes:
            found = _measure(torch, dist, plan, device, op, size)
            if found and rank == 0:
                recorder.add("row", **found)
    if plan.profile_steps:
        _profile(torch, dist, plan, device, directory / f"trace.rank{rank}.json.gz")
    dist.barrier()
    dist.destroy_process_group()
    recorder.add("end", rank=rank)


def main(arguments: list[str]) -> int:
    """``--probe`` prints what torch sees; else: the plan's file and the directory of the capture."""
    if arguments == ["--probe"]:
        sys.stdout.write(json.dumps(probe()) + "\n")
        return 0
    measure(Plan.load(Path(arguments[0])), Path(arguments[1]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
