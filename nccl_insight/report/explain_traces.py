"""Profiler traces in plain words: where the time of a step goes, who waits, and what the collectives take."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.straggler import delays
from nccl_insight.report.prose import Section, capped, safe, section
from nccl_insight.tables.run import Run
from nccl_insight.units import format_bytes, format_gbps, format_ns, plural

_SOURCES = {
    "gpu_annotation": "the GPU's own annotation", "launch": "the step in which the CPU launched them",
    "cpu_span": "the CPU's span of the step, since the trace holds neither GPU annotations nor launches",
}  # fmt: skip
_PARTS = (
    ("compute_ns", "compute"), ("exposed_comm_ns", "exposed communication"), ("exposed_copy_ns", "exposed copies"),
    ("other_comm_ns", "communication outside NCCL"), ("idle_ns", "idle"),
)  # fmt: skip


_OCCASIONS = 3
_MEMBERS = 8


def times(run: Run) -> Section | None:
    """What the steps of each rank spend their time on, and why the GPU idles."""
    steps = run.table("steps").filter(pl.col("duration_ns") > 0)
    if steps.is_empty() or steps["compute_ns"].null_count() == steps.height:
        return None
    return section("Steps", [*_how(run), *capped(list(_ranks(steps)), what="ranks")])


def _how(run: Run) -> Iterator[str]:
    info = run.table("trace_info")
    for source in info["step_source"].drop_nulls().unique().sort().to_list():
        yield f"Kernels belong to steps by {_SOURCES.get(source, source)}."
    outside = info.filter(pl.col("outside_steps_ns") > 0)
    if outside.height:
        total = format_ns(int(outside["outside_steps_ns"].sum()))
        yield f"{total} of GPU time in {plural(outside.height, 'trace')} belong to no step and are not counted here."


def _ranks(steps: pl.DataFrame) -> Iterator[str]:
    means = (
        steps.group_by("rank")
        .agg(
            pl.len().alias("n"), pl.col("duration_ns").mean(), pl.col(*dict(_PARTS)).mean(),
            pl.col("idle_host_ns", "idle_kernel_ns", "queue_mean").mean(),
        )
        .sort("rank", nulls_last=True)
    )  # fmt: skip
    for row in means.iter_rows(named=True):
        rank = "?" if row["rank"] is None else row["rank"]
        whole = row["duration_ns"]
        parts = [f"{name} {row[c] / whole:.0%}" for c, name in _PARTS if row[c] and row[c] >= 0.005 * whole]
        why = ""
        if row["idle_host_ns"] is not None and row["idle_ns"] and row["idle_ns"] >= 0.005 * whole:
            host, kernel = row["idle_host_ns"] / whole, row["idle_kernel_ns"] / whole
            why = f" ({host:.0%} waiting for the CPU, {kernel:.0%} for other kernels)"
        queue = f"; {row['queue_mean']:.0f} launched ahead" if row["queue_mean"] is not None else ""
        count = plural(row["n"], "step") if steps["step"].null_count() < steps.height else "the whole trace"
        yield f"- rank {rank}, {count} of {format_ns(whole)}: {', '.join(parts)}{why}{queue}"


def waiting(run: Run) -> Section | None:
    """Who waits in which process group; the rank that waits least is the one that the others wait for."""
    table = run.table("waits")
    if table.is_empty():
        return None
    lines = []
    groups = table.group_by("process_group").agg(pl.col("wait_ns").sum()).sort("wait_ns", descending=True)
    for group in groups["process_group"].to_list():
        rows = table.filter(pl.col("process_group").eq_missing(group)).sort("wait_ns", "rank")
        least, most = rows.row(0, named=True), rows.row(-1, named=True)
        if not most["wait_ns"]:
            continue
        lines.append(
            f"- group {safe(group)} ({plural(rows.height, 'rank')}): rank {most['rank']} waits most, "
            f"{format_ns(most['wait_ns'])} in {plural(most['collectives'], 'collective')}; rank {least['rank']} least, "
            f"{format_ns(least['wait_ns'])}, last in {least['times_last']:,}"
        )
    if not lines:
        return None
    return section(
        "Waiting", [*capped(lines, what="groups"), *capped(list(_ranks_that_wait(run)), what="ranks")]
    )


def _ranks_that_wait(run: Run) -> Iterator[str]:
    """A line a rank, over all its groups; the one that delays the others most first."""
    late = delays(run)
    rows = run.table("waits").group_by("rank").agg(
        pl.col("collectives", "wait_ns", "times_last", "times_first").sum(), pl.col("worst_wait_ns").max()
    )  # fmt: skip
    ordered = sorted(rows.iter_rows(named=True), key=lambda r: (-late.get(r["rank"], 0), r["rank"]))
    for row in ordered:
        cost = f"delays the others by {format_ns(late[row['rank']])}, " if late.get(row["rank"]) else ""
        yield (
            f"- rank {row['rank']}: {cost}waits {format_ns(row['wait_ns'])} in "
            f"{plural(row['collectives'], 'collective')} (at most {format_ns(row['worst_wait_ns'] or 0)}), last in "
            f"{row['times_last']:,}, first in {row['times_first']:,}"
        )


def occasions(run: Run) -> Section | None:
    """The collectives in which a rank waited longest, with each rank's start, time and wait."""
    table = run.table("collective_ranks").filter(pl.col("worst_wait_ns") > 0)
    if table.is_empty():
        return None
    clocks = run.table("trace_clocks")
    common = clocks.height > 0 and bool(clocks["comparable"].all())
    lines = []
    for row in (
        table.sort("worst_wait_ns", "match_id", descending=[True, False])
        .head(_OCCASIONS)
        .iter_rows(named=True)
    ):
        size = f" of {format_bytes(row['size_bytes'])}" if row["size_bytes"] is not None else ""
        step = f", step {row['step']}" if row["step"] is not None else ""
        lines.append(
            f"- {safe(row['op'])}{size} in group {safe(row['process_group'])}{step}: transfer "
            f"{format_ns(row['transfer_ns'])}, rank {row['last_rank']} came last"
        )
        starts = [s for s in row["start_ns"] if s is not None]
        parts = sorted(
            zip(row["wait_ns"], row["ranks"], row["start_ns"], row["duration_ns"], strict=True),
            key=lambda p: (-(p[0] or 0), p[1]),
        )
        for wait, rank, start, took in parts[:_MEMBERS]:
            at = f"starts {format_ns(start - min(starts))} in, " if common and start is not None else ""
            lines.append(
                f"  - rank {rank}: {at}takes {format_ns(took)}, of which it waits {format_ns(wait or 0)}"
            )
        if len(parts) > _MEMBERS:
            lines.append(f"  - and {plural(len(parts) - _MEMBERS, 'rank')} that wait less")
    return section("Longest waits", lines)


def kinds(run: Run) -> Section | None:
    """The collectives that take most, by operation and size."""
    table = run.table("collective_statistics")
    if table.is_empty():
        return None
    lines = []
    for row in table.iter_rows(named=True):
        size = format_bytes(row["size_bytes"]) if row["size_bytes"] is not None else "unknown size"
        ranks = f" on {plural(row['group_size'], 'rank')}" if row["group_size"] else ""
        speed = f", {format_gbps(row['median_busbw_gbps'])} busbw" if row["median_busbw_gbps"] else ""
        lines.append(
            f"- {row['count']:,} {safe(row['op'])} of {size}{ranks} in group {safe(row['process_group'])}: "
            f"median {format_ns(row['median_ns'])}{speed}"
        )
    return section("Collectives", capped(lines, what="kinds"))
