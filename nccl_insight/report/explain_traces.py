"""Profiler traces in plain words: where the time of a step goes, who waits, and what the collectives take."""

from collections.abc import Iterator, Sequence

from nccl_insight.base.units import format_bytes, format_gbps, format_ns, plural
from nccl_insight.report.prose import capped, safe
from nccl_insight.views.log.traces import RankWaits, Statistics, Waiting
from nccl_insight.views.steps import Spent
from nccl_insight.views.traces import LongestWaits

_SOURCES = {
    "gpu_annotation": "the GPU's own annotation",
    "launch": "the step in which the CPU launched them",
    "cpu_span": "the CPU's span of the step, since the trace holds neither GPU annotations nor launches",
}
_PARTS = (
    ("compute_ns", "compute"), ("exposed_comm_ns", "exposed communication"), ("exposed_copy_ns", "exposed copies"),
    ("other_comm_ns", "communication outside NCCL"), ("idle_ns", "idle"),
)  # fmt: skip


_OCCASIONS = 3
_MEMBERS = 8


def times(view: Spent) -> Iterator[str]:
    """What the steps of each rank spend their time on, and why the GPU idles."""
    yield from _how(view)
    yield from capped(list(_ranks(view)), what="ranks")


def _how(view: Spent) -> Iterator[str]:
    for source in view.sources:
        yield f"Kernels belong to steps by {_SOURCES.get(source, source)}."
    if view.traces_outside:
        total, traces = format_ns(view.outside_ns), plural(view.traces_outside, "trace")
        yield f"{total} of GPU time in {traces} belong to no step and are not counted here."


def _ranks(view: Spent) -> Iterator[str]:
    for row in view.ranks:
        rank = "?" if row.rank is None else row.rank
        means = {name: value or 0 for name, value in row.means.items()}
        whole = means["duration_ns"]
        parts = [f"{name} {means[c] / whole:.0%}" for c, name in _PARTS if means[c] and means[c] >= 0.005 * whole]
        why = ""
        if row.means["idle_host_ns"] is not None and means["idle_ns"] and means["idle_ns"] >= 0.005 * whole:
            host, kernel = means["idle_host_ns"] / whole, means["idle_kernel_ns"] / whole
            why = f" ({host:.0%} waiting for the CPU, {kernel:.0%} for other kernels)"
        queue = f"; {means['queue_mean']:.0f} launched ahead" if row.means["queue_mean"] is not None else ""
        count = plural(row.steps, "step") if view.stepped else "the whole trace"
        yield f"- rank {rank}, {count} of {format_ns(whole)}: {', '.join(parts)}{why}{queue}"


def waiting(view: Waiting) -> Iterator[str]:
    """Who waits in which process group; the rank that waits least is the one that the others wait for."""
    lines = [
        f"- group {safe(g.process_group)} ({plural(g.ranks, 'rank')}): rank {g.most_rank} waits most, "
        f"{format_ns(g.most_ns)} in {plural(g.collectives, 'collective')}; rank {g.least_rank} least, "
        f"{format_ns(g.least_ns)}, last in {g.least_last:,}"
        for g in view.groups
    ]
    ranks = [_rank_that_waits(row) for row in view.ranks]
    yield from capped(lines, what="groups")
    yield from capped(ranks, what="ranks")


def _rank_that_waits(row: RankWaits) -> str:
    cost = f"the others wait {format_ns(row.for_ns)} for it, " if row.for_ns else ""
    return (
        f"- rank {row.rank}: {cost}it waits {format_ns(row.wait_ns)} in {plural(row.collectives, 'collective')} "
        f"(at most {format_ns(row.worst_ns)}), last in {row.times_last:,}, first in {row.times_first:,}"
    )


def occasions(view: LongestWaits) -> Iterator[str]:
    """The collectives in which a rank waited longest, with each rank's start, time and wait."""
    for item in view.collectives[:_OCCASIONS]:
        size = f" of {format_bytes(item.size_bytes)}" if item.size_bytes is not None else ""
        step = f", step {item.step}" if item.step is not None else ""
        yield (
            f"- {safe(item.op)}{size} in group {safe(item.process_group)}{step}: transfer "
            f"{format_ns(item.transfer_ns)}, rank {item.last_rank} came last"
        )
        first = min((p.start_ns for p in item.parts if p.start_ns is not None), default=0)
        parts = sorted(item.parts, key=lambda p: (-p.wait_ns, p.rank))
        for part in parts[:_MEMBERS]:
            at = ""
            if view.clocks and part.start_ns is not None:
                at = f"starts {format_ns(part.start_ns - first)} in, "
            took = f"takes {format_ns(part.duration_ns)}, of which it waits {format_ns(part.wait_ns)}"
            yield f"  - rank {part.rank}: {at}{took}"
        if len(parts) > _MEMBERS:
            yield f"  - and {plural(len(parts) - _MEMBERS, 'rank')} that wait less"


def kinds(view: Sequence[Statistics]) -> Iterator[str]:
    """The collectives that take most, by operation and size."""
    lines = []
    for row in view:
        size = format_bytes(row.size_bytes) if row.size_bytes is not None else "unknown size"
        ranks = f" on {plural(row.group_size, 'rank')}" if row.group_size else ""
        speed = f", {format_gbps(row.median_busbw_gbps)} busbw" if row.median_busbw_gbps else ""
        lines.append(
            f"- {row.count:,} {safe(row.op)} of {size}{ranks} in group {safe(row.process_group)}: "
            f"median {format_ns(row.median_ns)}{speed}"
        )
    return capped(lines, what="kinds")
