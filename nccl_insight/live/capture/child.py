"""One rank of a capture: measures collectives and host copies, records a profiler trace. Runs in its own process.

Only this module imports torch, and only inside functions. Every line of its result file is a JSON object with a
``kind``; lines are written as they are known, so that a hang leaves what came before.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
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
from nccl_insight.live.capture import schedule
from nccl_insight.live.capture.plan import Plan

FORMAT_VERSION = 1
_NAMES = {
    "all_reduce": "AllReduce", "all_gather": "AllGather", "reduce_scatter": "ReduceScatter",
    "broadcast": "Broadcast", "all_to_all": "AllToAll", "sendrecv": "SendRecv",
}  # fmt: skip
#: torch name -> bytes of an element, largest n such that all whole numbers up to n are exact
DTYPES = {"float32": (4, 1 << 24), "float16": (2, 1 << 11), "bfloat16": (2, 1 << 8), "int32": (4, 1 << 31)}
_PREFIX = "nccl_insight"


class Recorder:
    """Appends one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")

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
) -> list[float]:
    """Time of every operation on this rank: CUDA events, or the wall clock on CPUs."""
    for _ in range(plan.warmup):
        action()
    dist.barrier()
    if device.type == "cuda":
        torch.cuda.synchronize()
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(plan.iterations + 1)]
        marks[0].record()
        for mark in marks[1:]:
            if slow:
                time.sleep(plan.slow_ms / 1e3)
            action()
            mark.record()
        torch.cuda.synchronize()
        return [float(a.elapsed_time(b)) / 1e3 for a, b in itertools.pairwise(marks)]
    times = []
    for _ in range(plan.iterations):
        started = time.perf_counter()
        if slow:
            time.sleep(plan.slow_ms / 1e3)
        action()
        times.append(time.perf_counter() - started)
    return times


def _pattern(torch: Any, count: int, largest: int, device: Any, first: int = 0) -> Any:
    """Whole numbers 1..``largest`` over and over, so that elements that changed places are noticed."""
    return torch.arange(first, first + count, dtype=torch.int64, device=device).remainder_(largest).add_(1)


def _operation(
    torch: Any, dist: Any, op: str, elements: int, device: Any, dtype_name: str
) -> tuple[Callable[[], None], Callable[[], int]]:
    """The operation on buffers of ``elements`` in all, and a check that counts wrong elements of this rank.

    Sums are checked with numbers small enough to be exact in the data type, whatever the order of adding.
    """
    rank, world = dist.get_rank(), dist.get_world_size()
    share = max(1, elements // world)
    dtype, exact = getattr(torch, dtype_name), DTYPES[dtype_name][1]
    weights = world * (world + 1) // 2
    weighted = weights <= exact  # else every rank gives the same, which still tells a lost contribution
    total = weights if weighted else world
    mine_factor = rank + 1 if weighted else 1
    for_sum = max(1, min(251, exact // max(1, total)))

    def typed(values: Any) -> Any:
        return values.to(dtype)

    def full(count: int) -> Any:
        return torch.zeros((count,), dtype=dtype, device=device)

    def wrong(got: Any, want: Any) -> int:
        return int((got != want).sum().item())

    def summed(count: int, factor: int, first: int = 0) -> Any:
        return typed(_pattern(torch, count, for_sum, device, first) * factor)

    def block(source: int, target: int, count: int) -> Any:
        """What rank ``source`` sends to rank ``target``: another start of the pattern for each pair."""
        return typed(_pattern(torch, count, min(251, exact), device, source * 7 + target * 13))

    if op == "all_reduce":
        data = full(elements)

        def check_reduce() -> int:
            fresh = summed(elements, mine_factor)
            dist.all_reduce(fresh)
            return wrong(fresh, summed(elements, total))

        return (lambda: dist.all_reduce(data) and None), check_reduce
    if op == "broadcast":
        data = full(elements)

        def check_broadcast() -> int:
            fresh = block(rank, 0, elements)
            dist.broadcast(fresh, src=0)
            return wrong(fresh, block(0, 0, elements))

        return (lambda: dist.broadcast(data, src=0) and None), check_broadcast
    if op == "all_gather":
        mine, out = block(rank, 0, share), full(share * world)
        gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor

        def check_gather() -> int:
            out.zero_()
            gather(out, mine)
            return sum(wrong(out[r * share : (r + 1) * share], block(r, 0, share)) for r in range(world))

        return (lambda: gather(out, mine) and None), check_gather
    if op == "reduce_scatter":
        source, part = summed(share * world, mine_factor), full(share)
        scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

        def check_scatter() -> int:
            part.zero_()
            scatter(part, source)
            return wrong(part, summed(share, total, rank * share))

        return (lambda: scatter(part, source) and None), check_scatter
    if op == "all_to_all":
        source = torch.cat([block(rank, target, share) for target in range(world)])
        out = full(share * world)

        def check_alltoall() -> int:
            out.zero_()
            dist.all_to_all_single(out, source)
            return sum(wrong(out[r * share : (r + 1) * share], block(r, rank, share)) for r in range(world))

        return (lambda: dist.all_to_all_single(out, source) and None), check_alltoall
    following, before = (rank + 1) % world, (rank - 1) % world
    mine, out = block(rank, following, elements), full(elements)

    def exchange() -> None:
        pair = [dist.P2POp(dist.isend, mine, following), dist.P2POp(dist.irecv, out, before)]
        for work in dist.batch_isend_irecv(pair):
            work.wait()

    def check_exchange() -> int:
        out.zero_()
        exchange()
        return wrong(out, block(before, rank, elements))

    return exchange, check_exchange


def _fits(torch: Any, dist: Any, device: Any, elements: int) -> bool:
    """Whether every rank has the memory that an operation and its check take (buffers, expected values, masks)."""
    if device.type != "cuda":
        return True
    free = torch.tensor([float(torch.cuda.mem_get_info(device)[0])], dtype=torch.float64, device=device)
    dist.all_reduce(free, op=dist.ReduceOp.MIN)
    # data, fresh copy, expected values, int64 pattern and its product, mask
    return float(free[0]) > elements * (3 * 4 + 3 * 8 + 1) + (512 << 20)


def _measure(torch: Any, dist: Any, plan: Plan, device: Any, op: str, size: int) -> dict[str, object]:
    """One row: times over all ranks and elements that came out wrong, agreed between ranks."""
    world = dist.get_world_size()
    element_bytes = DTYPES[plan.dtype][0]
    whole = op in ("all_gather", "reduce_scatter", "all_to_all")
    elements = max(1, size // element_bytes)
    elements = max(world, elements // world * world) if whole else elements
    if op == "sendrecv" and world == 1:
        return {}
    if not _fits(torch, dist, device, elements):
        return {
            "skipped": "not enough free GPU memory",
            "op": _NAMES[op],
            "size_bytes": elements * element_bytes,
        }
    action, check = _operation(torch, dist, op, elements, device, plan.dtype)
    bad = check()
    each = _seconds_per_iteration(torch, dist, plan, device, action, dist.get_rank() == plan.slow_rank)
    bad += check()
    seconds = sum(each) / len(each)
    host = float(zlib.crc32(socket.gethostname().encode()))
    mine = torch.tensor([seconds, float(bad), host, min(each), max(each)], dtype=torch.float64, device=device)
    every = [torch.zeros_like(mine) for _ in range(world)]
    dist.all_gather(every, mine)
    times = [float(t[0]) for t in every]
    mean = sum(times) / world
    size = elements * element_bytes
    algbw = size / mean / 1e9 if mean > 0 else None
    factor = busbw_factor(_NAMES[op], world)
    return {
        "op": _NAMES[op], "size_bytes": size, "count": elements // world if whole else elements, "dtype": plan.dtype,
        "red_op": "sum" if op in ("all_reduce", "reduce_scatter") else None, "root": 0 if op == "broadcast" else None,
        "time_us": mean * 1e6, "time_min_us": min(times) * 1e6, "time_max_us": max(times) * 1e6,
        "iteration_min_us": min(float(t[3]) for t in every) * 1e6,
        "iteration_max_us": max(float(t[4]) for t in every) * 1e6,
        "algbw_gbps": algbw, "busbw_gbps": algbw * factor if algbw is not None and factor else None,
        "wrong": int(sum(float(t[1]) for t in every)), "nranks": world,
        "n_hosts": len({float(t[2]) for t in every}),
        "in_place": op in ("all_reduce", "broadcast"),
    }  # fmt: skip


@contextlib.contextmanager
def _near(torch: Any, device: Any) -> Iterator[int | None]:
    """On the CPUs of the GPU's NUMA node, since memory of another socket halves a copy; gives that node."""
    found = torch.cuda.get_device_properties(device)
    parts = [getattr(found, f"pci_{name}_id", None) for name in ("domain", "bus", "device")]
    if any(p is None for p in parts):
        yield None
        return
    domain, bus, slot = (int(p or 0) for p in parts)
    base = Path("/sys/bus/pci/devices") / f"{domain:04x}:{bus:02x}:{slot:02x}.0"
    before = os.sched_getaffinity(0)
    node = None
    try:
        node = int((base / "numa_node").read_text())
        cpus = {
            cpu
            for span in (base / "local_cpulist").read_text().strip().split(",")
            for cpu in range(int(span.split("-")[0]), int(span.split("-")[-1]) + 1)
        }
        os.sched_setaffinity(0, cpus & before or before)
    except (OSError, ValueError):
        node = None
    try:
        yield node if node is not None and node >= 0 else None
    finally:
        os.sched_setaffinity(0, before)


def _copies(torch: Any, device: Any) -> Iterator[dict[str, object]]:
    """Host-to-device and device-to-host bandwidth of this rank's GPU, pinned and pageable, from its own socket."""
    size = 256 << 20
    with _near(torch, device) as numa:
        on_gpu = torch.ones(size, dtype=torch.uint8, device=device)
        for pinned in (True, False):
            on_host = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
            on_host.fill_(1)  # untouched pages all map to one page of zeros, which copies too fast
            for direction, target, source in (("h2d", on_gpu, on_host), ("d2h", on_host, on_gpu)):
                target.copy_(source)
                torch.cuda.synchronize(device)
                started = time.perf_counter()
                for _ in range(5):
                    target.copy_(source, non_blocking=pinned)
                torch.cuda.synchronize(device)
                yield {
                    "direction": direction, "pinned": pinned, "size_bytes": size, "numa_node": numa,
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
            source = torch.ones(size, dtype=torch.uint8, device=f"cuda:{src}")
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


def _host_measurements(torch: Any, dist: Any, device: Any, local: int, recorder: Recorder) -> None:
    """Copies of one GPU after the other, so that none measures another's traffic; then pairs of GPUs.

    A measurement that fails (a GPU in exclusive mode, no memory) is recorded and ends nothing.
    """
    rank = dist.get_rank()
    turns = torch.tensor([float(local)], dtype=torch.float64, device=device)
    dist.all_reduce(turns, op=dist.ReduceOp.MAX)
    for turn in range(int(turns[0]) + 1):
        if turn == local:
            try:
                for row in _copies(torch, device):
                    recorder.add("copy", rank=rank, host=socket.gethostname(), **row)
            except RuntimeError as error:
                recorder.add("failed", what="copies", why=str(error).splitlines()[0])
        dist.barrier()
    if local == 0:
        try:
            for row in _peers(torch):
                recorder.add("peer", rank=rank, host=socket.gethostname(), **row)
        except RuntimeError as error:
            recorder.add("failed", what="peers", why=str(error).splitlines()[0])
    dist.barrier()


def _nodes(store: Any, rank: int, world: int, local: int, plan: Plan, recorder: Recorder) -> list[list[int]]:
    """Ranks of every node; rank 0 records which node each is, and what its own checks said.

    Goes through the store, since gathering objects by collectives takes numpy and GPU memory.
    """
    mine = {"host": socket.gethostname(), "local": local, "verdict": list(plan.verdict)}
    store.set(f"node/{rank}", json.dumps(mine))
    if rank == 0:
        every = [json.loads(store.get(f"node/{r}")) for r in range(world)]
        nodes: list[list[int]] = []
        for number, one in enumerate(every):
            if one["local"] == 0 or not nodes:
                nodes.append([])
            nodes[-1].append(number)
        for index, ranks in enumerate(nodes):
            first = every[ranks[0]]
            recorder.add("node", node=index, host=first["host"], ranks=ranks, verdict=first["verdict"])
        store.set("nodes", json.dumps(nodes))
    found: list[list[int]] = json.loads(store.get("nodes"))
    return found


def _pairs(
    torch: Any, dist: Any, plan: Plan, device: Any, nodes: list[list[int]], recorder: Recorder
) -> None:
    """Nodes measure two by two, all pairs of a round at the same time; rank 0 records the bus bandwidth of each."""
    rank, world = dist.get_rank(), dist.get_world_size()
    data = torch.zeros(max(1, plan.pair_bytes // 4), device=device)
    for number, matching in enumerate(schedule.rounds(len(nodes))):
        groups = [(pair, dist.new_group(sorted(nodes[pair[0]] + nodes[pair[1]]))) for pair in matching]
        own = next(((p, g) for p, g in groups if rank in nodes[p[0]] + nodes[p[1]]), None)
        seconds = 0.0
        if own is not None:
            group = own[1]
            each = _group_seconds(torch, dist, plan, device, data, group)
            seconds = sum(each) / len(each)
        times = torch.zeros(world, dtype=torch.float64, device=device)
        times[rank] = seconds
        dist.all_reduce(times)
        for (first, second), _ in groups if rank == 0 else ():
            members = nodes[first] + nodes[second]
            mean = sum(float(times[r]) for r in members) / len(members)
            factor = busbw_factor("AllReduce", len(members)) or 1.0
            recorder.add(
                "pair", round=number, first=first, second=second, size_bytes=data.numel() * 4, nranks=len(members),
                busbw_gbps=data.numel() * 4 / mean / 1e9 * factor if mean > 0 else None,
            )  # fmt: skip
        for _, group in groups:
            if own is not None and group is own[1]:
                dist.destroy_process_group(group)
        dist.barrier()


def _group_seconds(torch: Any, dist: Any, plan: Plan, device: Any, data: Any, group: Any) -> list[float]:
    times = []
    for turn in range(plan.warmup + plan.iterations):
        dist.barrier(group=group)
        if device.type == "cuda":
            torch.cuda.synchronize()
        started = time.perf_counter()
        if dist.get_rank() == plan.slow_rank:
            time.sleep(plan.slow_ms / 1e3)
        dist.all_reduce(data, group=group)
        if device.type == "cuda":
            torch.cuda.synchronize()
        if turn >= plan.warmup:
            times.append(time.perf_counter() - started)
    return times


def _join(dist: Any, plan: Plan, rank: int, world: int) -> Any:
    """Joins the other ranks, under a prefix of our own: the job that comes next may use the launcher's store, too."""
    patience = datetime.timedelta(seconds=plan.timeout_s)
    store, _, _ = next(dist.rendezvous(plan.rendezvous or "env://", rank, world, timeout=patience))
    store.set_timeout(patience)
    own = dist.PrefixStore(_PREFIX, store)
    dist.init_process_group(plan.backend, store=own, rank=rank, world_size=world, timeout=patience)
    return own


def _profile(torch: Any, dist: Any, plan: Plan, device: Any, path: Path) -> None:
    """A profiler trace of some steps: a little compute, then an all-reduce."""
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.type == "cuda" else [])
    data = torch.zeros(max(1, plan.profile_bytes // 4), device=device)
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
    if cuda and torch.cuda.is_available():  # a launcher may show each process its own GPU only
        device = torch.device("cuda", local % max(1, torch.cuda.device_count()))
        torch.cuda.set_device(device)
    elif not cuda:
        torch.set_num_threads(1)
    seen = probe()
    if cuda and not seen["cuda_available"]:
        recorder.add("unusable", why=f"torch {seen['torch']} of this Python cannot use a GPU", rank=rank)
        return
    recorder.add(
        "versions", torch=seen["torch"], cuda=seen["cuda"], nccl=seen["nccl"],
        gpu=torch.cuda.get_device_name(device) if device.type == "cuda" else None,
    )  # fmt: skip
    store = _join(dist, plan, rank, world)
    recorder.add("ready", rank=rank)
    nodes = _nodes(store, rank, world, local, plan, recorder) if plan.pair_bytes or plan.verdict else []
    for op in plan.ops:
        for size in plan.sizes:
            found = _measure(torch, dist, plan, device, op, size)
            if found and rank == 0:
                recorder.add("skipped" if "skipped" in found else "row", **found)
    if plan.profile_steps:
        _profile(torch, dist, plan, device, directory / f"trace.rank{rank}.json.gz")
    dist.barrier()
    if plan.pair_bytes and len(nodes) > 1:
        _pairs(torch, dist, plan, device, nodes, recorder)
    if cuda and plan.host_copies:
        _host_measurements(torch, dist, device, local, recorder)
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
