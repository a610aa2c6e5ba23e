"""Collectives of a capture, with a check of every element and the time of every turn. torch is passed in."""

import itertools
import socket
import time
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

from nccl_insight.base.bandwidth import busbw_factor, dtype_size
from nccl_insight.live.capture.plan import NAMES, Plan

#: Largest n such that all whole numbers up to n are exact.
_EXACT = {"float32": 1 << 24, "float16": 1 << 11, "bfloat16": 1 << 8}


def _seconds_per_iteration(
    torch: Any, dist: Any, plan: Plan, device: Any, action: Callable[[], object], slow: bool
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
) -> tuple[Callable[[], object], Callable[[], int]]:
    """The operation on buffers of ``elements`` in all, and a check that counts wrong elements of this rank.

    Sums are checked with numbers small enough to be exact in the data type, whatever the order of adding.
    """
    rank, world = dist.get_rank(), dist.get_world_size()
    share = max(1, elements // world)
    dtype, exact = getattr(torch, dtype_name), _EXACT.get(dtype_name, 1 << 31)
    weights = world * (world + 1) // 2
    # Where weights are not exact, every rank gives the same, which still tells a lost contribution.
    total, factor = (weights, rank + 1) if weights <= exact else (world, 1)
    for_sum = max(1, min(251, exact // max(1, total)))

    def full(count: int) -> Any:
        return torch.zeros((count,), dtype=dtype, device=device)

    def wrong(got: Any, want: Any) -> int:
        return int((got != want).sum().item())

    def summed(count: int, factor: int, first: int = 0) -> Any:
        return (_pattern(torch, count, for_sum, device, first) * factor).to(dtype)

    def block(source: int, target: int, count: int) -> Any:
        """What rank ``source`` sends to rank ``target``: another start of the pattern for each pair."""
        return _pattern(torch, count, min(251, exact), device, source * 7 + target * 13).to(dtype)

    if op in ("all_reduce", "broadcast"):
        own, want = partial(summed, elements, factor), partial(summed, elements, total)
        in_place = dist.all_reduce
        if op == "broadcast":
            own, want = partial(block, rank, 0, elements), partial(block, 0, 0, elements)
            in_place = partial(dist.broadcast, src=0)

        def check_in_place() -> int:
            fresh = own()
            in_place(fresh)
            return wrong(fresh, want())

        return partial(in_place, full(elements)), check_in_place
    following, before = (rank + 1) % world, (rank - 1) % world
    if op == "all_gather":
        mine, out = block(rank, 0, share), full(share * world)
        run = partial(getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor, out, mine)
        wanted = [partial(block, r, 0, share) for r in range(world)]
    elif op == "reduce_scatter":
        mine, out = summed(share * world, factor), full(share)
        run = partial(getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor, out, mine)
        wanted = [partial(summed, share, total, rank * share)]
    elif op == "all_to_all":
        mine, out = torch.cat([block(rank, target, share) for target in range(world)]), full(share * world)
        run = partial(dist.all_to_all_single, out, mine)
        wanted = [partial(block, r, rank, share) for r in range(world)]
    else:
        mine, out = block(rank, following, elements), full(elements)
        run = partial(_exchange, dist, mine, following, out, before)
        wanted = [partial(block, before, rank, elements)]

    def check() -> int:
        out.zero_()
        run()
        return sum(wrong(part, want()) for part, want in zip(out.chunk(len(wanted)), wanted, strict=True))

    return run, check


def _exchange(dist: Any, mine: Any, following: int, out: Any, before: int) -> None:
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, following), dist.P2POp(dist.irecv, out, before)]):
        work.wait()


def _fits(torch: Any, dist: Any, device: Any, elements: int) -> bool:
    """Whether every rank has the memory that an operation and its check take (buffers, expected values, masks)."""
    if device.type != "cuda":
        return True
    free = torch.tensor([float(torch.cuda.mem_get_info(device)[0])], dtype=torch.float64, device=device)
    dist.all_reduce(free, op=dist.ReduceOp.MIN)
    # data, fresh copy, expected values, int64 pattern and its product, mask
    return float(free[0]) > elements * (3 * 4 + 3 * 8 + 1) + (512 << 20)


def measure(torch: Any, dist: Any, plan: Plan, device: Any, op: str, size: int) -> dict[str, object]:
    """One row: times over all ranks and elements that came out wrong, agreed between ranks."""
    world = dist.get_world_size()
    element_bytes = dtype_size(plan.dtype) or 4
    whole = op in ("all_gather", "reduce_scatter", "all_to_all")
    elements = max(1, size // element_bytes)
    elements = max(world, elements // world * world) if whole else elements
    if op == "sendrecv" and world == 1:
        return {}
    if not _fits(torch, dist, device, elements):
        return {"skipped": "not enough free GPU memory", "op": NAMES[op], "size_bytes": elements * element_bytes}
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
    factor = busbw_factor(NAMES[op], world)
    return {
        "op": NAMES[op], "size_bytes": size, "count": elements // world if whole else elements, "dtype": plan.dtype,
        "red_op": "sum" if op in ("all_reduce", "reduce_scatter") else None, "root": 0 if op == "broadcast" else None,
        "time_us": mean * 1e6, "time_min_us": min(times) * 1e6, "time_max_us": max(times) * 1e6,
        "iteration_min_us": min(float(t[3]) for t in every) * 1e6,
        "iteration_max_us": max(float(t[4]) for t in every) * 1e6,
        "algbw_gbps": algbw, "busbw_gbps": algbw * factor if algbw is not None and factor else None,
        "wrong": int(sum(float(t[1]) for t in every)), "nranks": world,
        "n_hosts": len({float(t[2]) for t in every}),
        "in_place": op in ("all_reduce", "broadcast"),
    }  # fmt: skip
