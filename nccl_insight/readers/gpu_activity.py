"""From GPU activity of one trace to the tables ``collectives``, ``steps``, ``memcpy`` and ``other_communication``.

Shared by the readers of Kineto and Nsight Systems. Exposed time of a collective is the part of its kernel that no
compute kernel of the same device covers; copies do not count as compute.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from nccl_insight import bandwidth
from nccl_insight.readers import intervals as _intervals
from nccl_insight.readers.kernels import COMM, COMPUTE, MEMCPY, MEMSET, OTHER

ACTIVITY: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    "kind": pl.Int8, "start_ns": pl.Int64, "end_ns": pl.Int64, "device": pl.Int32, "stream": pl.Int64,
    "name": pl.String, "size_bytes": pl.Int64,
}  # fmt: skip
"""Columns of the GPU activity of a trace; ``size_bytes`` is filled for copies only."""

_PAGEABLE: Final = r"(?i)pageable"


def exposed_ns(comm: pl.DataFrame, activity: pl.DataFrame) -> pl.Series:
    """Time of each communication row (``device, start_ns, end_ns``) that no compute kernel of its device covers."""
    parts = _intervals.union(activity.filter(pl.col("kind") == COMPUTE))
    return comm.select(pl.col("end_ns") - pl.col("start_ns") - _intervals.covered(comm, parts)).to_series()


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
    joined = (
        starts.select("start_ns")
        .with_row_index("order")
        .sort("start_ns")
        .join_asof(steps.sort("start_ns"), on="start_ns", strategy="backward", check_sortedness=False)
        .sort("order")
    )
    inside = pl.when(pl.col("start_ns") < pl.col("end_ns")).then(pl.col("step"))
    return joined.select(inside.cast(pl.Int32)).to_series()


def step_table(activity: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Where the time of each step went, per device.

    ``steps`` has ``step, start_ns, end_ns``; without any, the whole span of GPU activity is one row with a null
    ``step``. Columns: ``device, step, start_ns, duration_ns, compute_ns, comm_ns, exposed_comm_ns, other_comm_ns,
    memcpy_ns, idle_ns, overlap_pct, pageable_ns, exposed_pageable_ns, exposed_copy_ns``. ``comm_ns`` is the union of
    NCCL kernels,
    ``memcpy_ns`` that of copies and sets, ``idle_ns`` the time without any GPU activity, ``overlap_pct`` the share
    of communication that compute covers (null without communication).
    """
    if activity.is_empty():
        return pl.DataFrame()
    devices = activity.select("device").unique().sort("device")
    if steps.is_empty():
        spans = (
            activity.group_by("device").agg(pl.col("start_ns").min(), pl.col("end_ns").max()).sort("device")
        )
        spans = spans.with_columns(step=pl.lit(None, pl.Int32))
    else:
        spans = devices.join(steps.select("step", "start_ns", "end_ns"), how="cross")
    kinds = {
        "compute": [COMPUTE], "comm": [COMM], "other_comm": [OTHER], "memcpy": [MEMCPY, MEMSET],
        "hidden_by": [COMPUTE, COMM], "any": [COMPUTE, COMM, OTHER, MEMCPY, MEMSET],
        "comm_or_compute": [COMM, COMPUTE], "copy_or_work": [COMPUTE, COMM, MEMCPY, MEMSET],
    }  # fmt: skip
    times = {k: _covered(spans, activity.filter(pl.col("kind").is_in(v))) for k, v in kinds.items()}
    pageable = activity.filter((pl.col("kind") == MEMCPY) & pl.col("name").str.contains(_PAGEABLE))
    working = activity.filter(pl.col("kind").is_in([COMPUTE, COMM]))
    table = spans.with_columns(
        duration_ns=pl.col("end_ns") - pl.col("start_ns"),
        compute_ns=times["compute"],
        comm_ns=times["comm"],
        exposed_comm_ns=times["comm_or_compute"] - times["compute"],
        other_comm_ns=times["other_comm"],
        memcpy_ns=times["memcpy"],
        exposed_copy_ns=times["copy_or_work"] - times["hidden_by"],
        pageable_ns=_covered(spans, pageable),
        exposed_pageable_ns=_covered(spans, pl.concat([pageable, working])) - times["hidden_by"],
    )
    hidden = pl.col("comm_ns") - pl.col("exposed_comm_ns")
    return table.with_columns(
        idle_ns=pl.col("duration_ns") - times["any"],
        overlap_pct=pl.when(pl.col("comm_ns") > 0).then(100.0 * hidden / pl.col("comm_ns")),
    ).drop("end_ns")


def _covered(spans: pl.DataFrame, rows: pl.DataFrame) -> pl.Series:
    return _intervals.covered(spans, _intervals.union(rows))


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
    """Communication kernels that are not NCCL's: ``device, kernel, count, duration_ns, exposed_ns``."""
    rows = activity.filter(pl.col("kind") == OTHER)
    if rows.is_empty():
        return pl.DataFrame()
    return (
        rows.with_columns(exposed_ns=exposed_ns(rows, activity), kernel=pl.col("name").str.slice(0, 300))
        .group_by("device", "kernel")
        .agg(
            count=pl.len().cast(pl.UInt64),
            duration_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(),
            exposed_ns=pl.col("exposed_ns").sum(),
        )
        .sort("device", "kernel")
    )
