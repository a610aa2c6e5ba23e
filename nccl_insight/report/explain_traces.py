"""Profiler traces in plain words: where the time of a step goes, what mending gains, what collectives take."""

from collections.abc import Iterator, Sequence

from nccl_insight.base.model import Mend, Replayed
from nccl_insight.base.units import format_bytes, format_gbps, format_ns, plural
from nccl_insight.report.prose import capped, safe
from nccl_insight.views.log.traces import Statistics
from nccl_insight.views.steps import Spent

_SOURCES = {
    "gpu_annotation": "the GPU's own annotation",
    "launch": "the step in which the CPU launched them",
    "cpu_span": "the CPU's span of the step, since the trace holds neither GPU annotations nor launches",
}
_PARTS = (
    ("compute_ns", "compute"), ("exposed_comm_ns", "exposed communication"), ("exposed_copy_ns", "exposed copies"),
    ("other_comm_ns", "communication outside NCCL"), ("idle_ns", "idle"),
)  # fmt: skip


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


def mends(found: Sequence[Mend], replay: Replayed) -> Iterator[str]:
    """What a step takes, and what it would take with one thing after the other mended."""
    if replay.refused:
        yield f"The traces cannot be replayed: {replay.refused}."
        return
    per = "a step" if replay.steps > 1 else "what was recorded"
    yield f"As recorded {per} takes {format_ns(replay.window_ns / replay.steps)}; mended one after the other:"
    if not found:
        yield "- nothing: no rank, group or step takes longer than its peers, or mending it gains next to nothing"
    for number, mend in enumerate(found, 1):
        alone = f"alone {mend.alone_ns / replay.window_ns:.0%}"
        yield f"{number}. {mend.scenario}: {format_ns(mend.step_ns)} ({mend.gain_share:.0%} less, {alone})"


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
