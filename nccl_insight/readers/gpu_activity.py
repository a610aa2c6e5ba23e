"""From GPU activity of one trace to the tables ``collectives``, ``steps``, ``memcpy`` and ``other_communication``.

Shared by the readers of Kineto and Nsight Systems. Exposed time of a collective is the part of its kernel that no
compute kernel of the same device covers; copies do not count as compute.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import polars as pl

from nccl_insight.base import bandwidth
from nccl_insight.readers import intervals as _intervals
from nccl_insight.readers.kernels import COMM, COMPUTE, MEMCPY, MEMSET, OTHER, classify
from nccl_insight.tables.schema import of_input

Columns: TypeAlias = dict[str, pl.DataType | type[pl.DataType]]
_TIMES: Final[Columns] = {"start_ns": pl.Int64, "end_ns": pl.Int64}
_PLACE: Final[Columns] = {"device": pl.Int32, "stream": pl.Int64}
ACTIVITY: Final[Columns] = {"kind": pl.Int8, **_TIMES, **_PLACE, "name": pl.String, "size_bytes": pl.Int64}
"""Columns of the GPU activity of a trace; ``size_bytes`` is filled for copies only."""

STEPS: Final[Columns] = {"step": pl.Int32, **_TIMES}
"""Columns of the spans of steps on the CPU."""

MARKS: Final[Columns] = {"step": pl.Int32, **_PLACE, **_TIMES}
"""Columns of the annotations of steps on the GPU (:func:`assign_steps`)."""

_FILE_RANK: Final = re.compile(r"(?:rank|worker)[-_]?([0-9]{1,6})(?![0-9])|[-_.]r([0-9]{1,6})(?=[-_.])", re.I)
_HANDOVER_NS: Final = 1_000
"""Compute that begins so shortly before the end of a collective may as well have waited for it."""
_PAGEABLE: Final = r"(?i)pageable"


def rank_in_name(display: str) -> int | None:
    """The rank that the name of a trace's file tells."""
    found = _FILE_RANK.search(re.split(r"[/\\]", display)[-1])
    return int(found[1] or found[2]) if found else None


def header(**values: object) -> pl.DataFrame:
    """A row of ``trace_info``: what a trace says of itself, and what was read of it."""
    types = of_input("trace_info")
    return pl.DataFrame([values], schema={name: types[name] for name in values})


def headers(activity: pl.DataFrame, offset_ns: int = 0) -> pl.DataFrame:
    """Rows of ``trace_info`` where a file holds several GPUs, by ``device``: what was read of each."""
    return activity.group_by("device").agg(
        gpu_events=pl.len().cast(pl.Int64),
        comm_kernels=(pl.col("kind") == COMM).sum().cast(pl.Int64),
        start_ns=pl.col("start_ns").min() + offset_ns,
        end_ns=pl.col("end_ns").max() + offset_ns,
    )


def kinds_of(names: pl.Series, communication: tuple[str, ...]) -> pl.Expr:
    """The kind of each kernel by its ``name``; ``names``: all that there are."""
    kinds = {name: classify(name or "", communication).kind for name in names.unique().to_list()}
    return pl.col("name").replace_strict(kinds, default=0, return_dtype=pl.Int8)


def exposure(comm: pl.DataFrame, activity: pl.DataFrame) -> pl.DataFrame:
    """``exposed_ns, held_ns`` of communication rows (``device, start_ns, end_ns``), in their order.

    ``exposed_ns`` is the time that no compute kernel of the device covers, ``held_ns`` the last part of the row in
    which the device computed nothing: what it can have held up.
    """
    busy = _intervals.union(activity.filter(pl.col("kind") == COMPUTE))
    exposed = pl.col("end_ns") - pl.col("start_ns") - _intervals.covered(comm, busy)
    parts = busy.select("device", busy_from="start_ns", busy_to="end_ns").sort("busy_from")
    at = comm.select("device", "start_ns", "end_ns", at=pl.col("end_ns") - _HANDOVER_NS).with_row_index("order")
    at = (
        at.sort("at")
        .join_asof(parts, left_on="at", right_on="busy_from", by="device", strategy="backward", check_sortedness=False)
        .sort("order")
    )
    begin = pl.max_horizontal("start_ns", pl.min_horizontal("busy_to", "end_ns"))
    return comm.select(exposed_ns=exposed, held_ns=at.select(pl.col("end_ns") - begin).to_series())


def tables_of(activity: pl.DataFrame, collectives: pl.DataFrame, steps: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The tables that every profile with GPU activity fills. ``steps``: as :func:`step_table` makes them."""
    return {
        "collectives": collectives,
        "steps": steps,
        "memcpy": memcpy_table(activity),
        "other_communication": other_communication_table(activity),
        "gpu_work": work_table(activity),
    }


def by_name(activity: pl.DataFrame, op: Callable[[Mapping[str, Any]], str | None], *columns: str) -> pl.DataFrame:
    """Collectives of a profile that tells nothing but names and times of kernels. ``op``: that of a kernel's row."""
    comm = activity.filter(pl.col("kind") == COMM).sort("start_ns", maintain_order=True)
    ops = pl.Series([op(row) for row in comm.iter_rows(named=True)], dtype=pl.String)
    took, exposed = pl.col("end_ns") - pl.col("start_ns"), exposure(comm, activity).to_dict()
    rest = {"size_bytes": pl.lit(None, pl.UInt64), "group_size": pl.lit(None, pl.Int32), "source": pl.lit("kernel")}
    what = ("start_ns", "stream", "device", *columns)
    return with_bandwidth(comm.select(*what, kernel="name", op=ops, duration_ns=took, **exposed, **rest))


def with_bandwidth(collectives: pl.DataFrame) -> pl.DataFrame:
    """Adds ``algbw_gbps`` and ``busbw_gbps`` from size, duration and group size."""
    size, time = pl.col("size_bytes"), pl.col("duration_ns")
    return collectives.with_columns(
        algbw_gbps=bandwidth.algbw_expr(size, time),
        busbw_gbps=bandwidth.busbw_expr(pl.col("op"), size, time, pl.col("group_size")),
    )


def step_of(starts: pl.DataFrame, steps: pl.DataFrame) -> pl.Series:
    """Number of the step in which each ``start_ns`` falls (null outside); ``steps`` has ``step, start_ns, end_ns``."""
    if steps.is_empty() or starts.is_empty():
        return pl.repeat(None, starts.height, dtype=pl.Int32, eager=True)
    return _holding(starts.select("start_ns"), steps.select("step", "start_ns", "end_ns"), [])


def _holding(starts: pl.DataFrame, spans: pl.DataFrame, by: list[str]) -> pl.Series:
    """``step`` of the span that holds each ``start_ns``, among the spans of the same ``by``."""
    joined = (
        starts.with_row_index("order")
        .sort("start_ns")
        .join_asof(spans.sort("start_ns"), on="start_ns", by=by or None, strategy="backward", check_sortedness=False)
        .sort("order")
    )
    inside = pl.when(pl.col("start_ns") < pl.col("end_ns")).then(pl.col("step"))
    return joined.select(inside.cast(pl.Int32)).to_series()


def with_launches(activity: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """The activity with ``launch_ns``: when the CPU launched it (the first call of a correlation above 0), or null.

    ``launches`` has ``correlation, start_ns``.
    """
    rows = launches.filter(pl.col("correlation") > 0).select("correlation", launch_ns="start_ns")
    rising = (rows["correlation"] > rows["correlation"].shift(1)).all()  # as one thread launches: none comes twice
    rows = rows if rising else rows.unique("correlation", keep="first")
    return activity.join(rows, on="correlation", how="left", maintain_order="left")


def assign_steps(activity: pl.DataFrame, steps: pl.DataFrame, marks: pl.DataFrame) -> pl.DataFrame:
    """The step of each GPU event, and what says so: ``step`` (null = in no step) and ``by``, in the order of the rows.

    The GPU may run far behind the CPU, so the CPU span of a step says little about where its kernels run. In this
    order: the step annotation on the event's own stream, the step in which the CPU launched the event, the
    annotation on its device, the CPU span that holds its start (``gpu_annotation``, ``launch``, ``cpu_span``). An
    event without a launch, before the first one of its stream that has one, was launched before the recording began
    and is in no step of it.

    Args:
        activity: ``start_ns, device, stream, launch_ns`` of the events.
        steps: ``step, start_ns, end_ns`` on the CPU.
        marks: the annotations on the GPU (``MARKS``).
    """
    nothing = pl.repeat(None, activity.height, dtype=pl.Int32, eager=True)
    if (steps.is_empty() and marks.is_empty()) or activity.is_empty():
        return pl.DataFrame({"step": nothing, "by": nothing.cast(pl.String)})
    where = activity.select("start_ns", "device", "stream")
    on_stream = on_device = nothing
    marked = pl.repeat(False, activity.height, eager=True)
    if marks.height:
        on_stream = _holding(where, marks, ["device", "stream"])
        spans = marks.group_by("device", "step").agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        on_device = _holding(where.select("start_ns", "device"), spans, ["device"])
        marked = where["device"].is_in(marks["device"].unique().implode())
    launched = nothing
    before = pl.repeat(False, activity.height, eager=True)
    known = activity["launch_ns"].is_not_null()
    if known.any() and steps.height:
        begun = where.filter(known).group_by("device", "stream").agg(begun=pl.col("start_ns").min())
        before = where.join(begun, on=["device", "stream"], how="left", nulls_equal=True, maintain_order="left").select(
            (pl.col("start_ns") < pl.col("begun")).fill_null(False)
        )["start_ns"]
        launched = step_of(activity.select(start_ns="launch_ns"), steps)
    else:
        known = before
    annotated, by_launch = on_stream.is_not_null(), known | before
    columns = {"a": on_stream, "b": launched, "known": known, "c": on_device, "marked": marked, "before": before}
    found = pl.DataFrame({**columns, "d": step_of(where, steps), "annotated": annotated, "launch": by_launch})
    late = pl.when("marked").then("c").when("before").then(None).otherwise("d")
    by_gpu = pl.col("annotated") | (~pl.col("known") & pl.col("marked"))
    by = pl.when(by_gpu).then(pl.lit("gpu_annotation")).when("launch").then(pl.lit("launch"))
    return found.select(
        step=pl.when("annotated").then("a").when("known").then("b").otherwise(late), by=by.otherwise(pl.lit("cpu_span"))
    )


def idle_causes(activity: pl.DataFrame) -> pl.DataFrame:
    """Times without GPU activity, split by what the GPU waited for.

    ``device, start_ns, host_to, end_ns``: until ``host_to`` the next event had not been launched yet (the CPU is late),
    from there on it had (a stream waits for another, or the launch takes its time). Only gaps before an event whose
    launch is known.
    """
    busy = _intervals.union(activity)
    known = activity.filter(pl.col("launch_ns").is_not_null())
    launched = known.group_by("device", end_ns="start_ns").agg(launch=pl.col("launch_ns").min())
    gaps = busy.select("device", start_ns=pl.col("end_ns").shift(1).over("device"), end_ns="start_ns")
    return (
        gaps.filter(pl.col("end_ns") > pl.col("start_ns"))
        .join(launched, on=["device", "end_ns"])
        .select(
            "device", "start_ns", "end_ns", host_to=pl.min_horizontal(pl.max_horizontal("launch", "start_ns"), "end_ns")
        )
    )


def queue_lengths(activity: pl.DataFrame) -> pl.DataFrame:
    """``device, step, queue_mean``: events launched and not yet started, the mean at the starts of a step's events."""
    rows = activity.select("device", "step", "start_ns", "launch_ns").filter(pl.col("launch_ns").is_not_null())
    parts = [
        part.with_columns(
            queue=part["launch_ns"].sort().search_sorted(part["start_ns"], side="right").cast(pl.Int64)
            - part["start_ns"].sort().search_sorted(part["start_ns"], side="right").cast(pl.Int64)
        )
        for part in rows.partition_by("device")
    ]
    if not parts:
        return pl.DataFrame(schema={"device": pl.Int32, "step": pl.Int32, "queue_mean": pl.Float64})
    return pl.concat(parts).group_by("device", "step").agg(queue_mean=pl.col("queue").mean())


def step_table(activity: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Where the time of each step went, per device.

    ``activity`` has a column ``step`` (:func:`assign_steps`); events of no step are left out unless there are no steps
    at all, in which case the whole span of GPU activity is one row with a null ``step``. ``steps`` are the spans on the
    CPU (``step, start_ns, end_ns``); with ``launch_ns``, ``idle_host_ns``, ``idle_kernel_ns`` (:func:`idle_causes`) and
    ``queue_mean`` (:func:`queue_lengths`) tell why the GPU was idle. Columns: ``device, step, start_ns, duration_ns,
    compute_ns, comm_ns, exposed_comm_ns, other_comm_ns, memcpy_ns, idle_ns, overlap_pct, pageable_ns,
    exposed_pageable_ns, exposed_copy_ns, compute_kernels`` (how many kernels computed).

    The window of a step on the GPU begins with its CPU span or, where the GPU is still busy with the step before, when
    that one ends, but not after its own first event, with which the first window begins; it ends where the next one
    begins. ``comm_ns`` is the union of the step's NCCL kernels, ``exposed_comm_ns`` the part that no compute kernel of
    the step covers, ``memcpy_ns`` the union of copies and sets, ``idle_ns`` the part of the window without any GPU
    activity, ``overlap_pct`` the share of communication that compute covers (null without communication).
    """
    if activity.is_empty():
        return pl.DataFrame()
    rows = activity
    numbered = rows["step"].drop_nulls().len() > 0 or steps.height > 0
    if numbered:
        rows = rows.filter(pl.col("step").is_not_null())
    spans = _windows(rows, steps, activity.select("device").unique()) if numbered else _whole(activity)
    lanes = rows.select("device", "step").unique().with_row_index("lane")
    rows = rows.select("kind", "device", "step", "start_ns", "end_ns", "name").join(
        lanes, on=["device", "step"], nulls_equal=True
    )
    copying, working = [MEMCPY, MEMSET], [COMPUTE, COMM]
    kinds = {"compute": [COMPUTE], "comm": [COMM], "other_comm": [OTHER], "memcpy": copying, "working": working}
    parts = {n: _intervals.union(rows.filter(pl.col("kind").is_in(k)), by="lane") for n, k in kinds.items()}
    copies = rows.filter((pl.col("kind") == MEMCPY) & pl.col("name").str.contains(_PAGEABLE))
    parts["pageable"] = _intervals.union(copies, by="lane")
    counts = rows.filter(pl.col("kind") == COMPUTE).group_by("device", "step").agg(compute_kernels=pl.len())
    lane = spans.select("device", "step").join(
        lanes, on=["device", "step"], how="left", nulls_equal=True, maintain_order="left"
    )["lane"]
    table = spans.with_columns(
        duration_ns=pl.col("end_ns") - pl.col("start_ns"),
        **{f"{name}_ns": _intervals.total(lane, parts[name]) for name in ("compute", "comm", "other_comm", "memcpy")},
        exposed_comm_ns=_intervals.total(lane, parts["comm"], parts["compute"]),
        exposed_copy_ns=_intervals.total(lane, parts["memcpy"], parts["working"]),
        pageable_ns=_intervals.total(lane, parts["pageable"]),
        exposed_pageable_ns=_intervals.total(lane, parts["pageable"], parts["working"]),
    ).join(counts, on=["device", "step"], how="left", nulls_equal=True, maintain_order="left")
    table = table.with_columns(pl.col("compute_kernels").fill_null(0).cast(pl.Int64))
    if "launch_ns" in activity.columns and activity["launch_ns"].null_count() < activity.height:
        idle = idle_causes(activity)
        host = _intervals.union(idle.select("device", "start_ns", end_ns="host_to"))
        kernel = _intervals.union(idle.select("device", "end_ns", start_ns="host_to"))
        queues = queue_lengths(activity)
        table = table.with_columns(
            idle_host_ns=_intervals.covered(spans, host), idle_kernel_ns=_intervals.covered(spans, kernel)
        ).join(queues, on=["device", "step"], how="left", nulls_equal=True, maintain_order="left")
    hidden = pl.col("comm_ns") - pl.col("exposed_comm_ns")
    return table.with_columns(
        idle_ns=pl.col("duration_ns") - _intervals.covered(spans, _intervals.union(activity)),
        overlap_pct=pl.when(pl.col("comm_ns") > 0).then(100.0 * hidden / pl.col("comm_ns")),
    ).drop("end_ns")


def _whole(activity: pl.DataFrame) -> pl.DataFrame:
    spans = activity.group_by("device").agg(pl.col("start_ns").min(), pl.col("end_ns").max()).sort("device")
    return spans.with_columns(step=pl.lit(None, pl.Int32))


def _windows(rows: pl.DataFrame, steps: pl.DataFrame, devices: pl.DataFrame) -> pl.DataFrame:
    """``device, step, start_ns, end_ns``: the windows of the steps on each device, see :func:`step_table`."""
    busy = rows.group_by("device", "step").agg(first=pl.col("start_ns").min(), last=pl.col("end_ns").max())
    cpu = steps.select("step", cpu_start="start_ns", cpu_end="end_ns")
    every = pl.concat([busy.select("step"), cpu.select("step")]).unique().join(devices, how="cross")
    begun = pl.when(pl.col("before").is_not_null()).then(pl.max_horizontal("cpu_start", "before"))
    start = pl.min_horizontal("first", pl.coalesce(begun, "first"))
    return (
        every.join(busy, on=["device", "step"], how="left")
        .join(cpu, on="step", how="left")
        .sort("device", pl.coalesce("first", "cpu_start"))
        .with_columns(before=pl.col("last").cum_max().shift(1).over("device"))
        .with_columns(start_ns=pl.coalesce(start, "cpu_start"))
        .with_columns(
            end_ns=pl.min_horizontal(
                pl.max_horizontal("last", "cpu_end", "start_ns"), pl.col("start_ns").shift(-1).over("device")
            )
        )
        .select("device", pl.col("step").cast(pl.Int32), "start_ns", "end_ns")
        .sort("device", "start_ns")
    )


def work_table(activity: pl.DataFrame) -> pl.DataFrame:
    """All GPU events: ``device, stream, step, kind, name, start_ns, end_ns, launch_ns``; ``name`` is a hash of it.

    A reader that keeps no names of compute kernels gives their hashes (:func:`hashed`) as ``name_hash``.
    Copies of one kind have one name, whatever their size.
    """
    known = pl.col("name_hash") if "name_hash" in activity.columns else pl.lit(None, pl.UInt64)
    launched = pl.col("launch_ns") if "launch_ns" in activity.columns else pl.lit(None, pl.Int64)
    name = pl.coalesce(known, hashed(pl.col("name"))).fill_null(0)
    return activity.select("device", "stream", "step", "kind", "start_ns", "end_ns", launch_ns=launched, name=name)


def hashed(name: pl.Expr) -> pl.Expr:
    """The hash of a kernel's name, equal in all traces."""
    return name.hash(1)


def memcpy_table(activity: pl.DataFrame) -> pl.DataFrame:
    """Copies by device and kind: ``device, name, count, size_bytes, duration_ns, pageable``."""
    return (
        activity.filter(pl.col("kind") == MEMCPY)
        .group_by("device", "name", maintain_order=True)
        .agg(
            count=pl.len().cast(pl.UInt64),
            size_bytes=pl.col("size_bytes").sum().cast(pl.UInt64),
            duration_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(),
        )
        .with_columns(pageable=pl.col("name").str.contains(_PAGEABLE))
        .sort("device", "name")
    )


def other_communication_table(activity: pl.DataFrame) -> pl.DataFrame:
    """Communication kernels not of NCCL: ``device, kernel, library, op, count, duration_ns, exposed_ns``."""
    rows = activity.filter(pl.col("kind") == OTHER)
    if rows.is_empty():
        return pl.DataFrame()
    return (
        rows.with_columns(exposed_ns=exposure(rows, activity)["exposed_ns"], kernel=pl.col("name").str.slice(0, 300))
        .group_by("device", "kernel")
        .agg(
            count=pl.len().cast(pl.UInt64),
            duration_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(),
            exposed_ns=pl.col("exposed_ns").sum(),
        )
        .sort("device", "kernel")
        .with_columns(
            library=pl.col("kernel").map_elements(lambda n: classify(n).library, return_dtype=pl.String),
            op=pl.col("kernel").map_elements(lambda n: classify(n).op, return_dtype=pl.String),
        )
    )
