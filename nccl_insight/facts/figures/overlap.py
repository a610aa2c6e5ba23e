"""Where the time of steps goes per rank: compute, communication, its exposed part, copies, idle.

Waiting that the schedule of a pipeline makes (:mod:`nccl_insight.facts.lateness.pipeline`) is told apart from
communication, and exposed communication that is on the critical path by design
(:mod:`nccl_insight.facts.lateness.critical`) from the rest.
"""

import polars as pl

from nccl_insight.base.words import words
from nccl_insight.facts.lateness.critical import MOST, critical_path
from nccl_insight.facts.lateness.pipeline import schedule_waits
from nccl_insight.tables.run import Run, fact

_SUMS = words("""duration_ns compute_ns comm_ns exposed_comm_ns other_comm_ns memcpy_ns exposed_copy_ns pageable_ns
    exposed_pageable_ns idle_ns""")
_LEAST_NS = 1_000_000


@fact
def step_summary(run: Run) -> pl.DataFrame:
    """Sums over the GPU steps of each rank and device.

    Columns: ``input_id, rank, device, steps, duration_ns, compute_ns, comm_ns, exposed_comm_ns, other_comm_ns,
    memcpy_ns, exposed_copy_ns, pageable_ns, exposed_pageable_ns, idle_ns, stage_wait_ns, inline_ns, comm_share,
    exposed_share, overlap_share, inline_share`` (shares 0..1; overlap_share is null without communication).
    ``inline_share`` is the part of exposed_share that the design puts on the critical path, 0 where it is more than
    half of the step. ``comm_ns``, ``exposed_comm_ns`` and the shares are without ``stage_wait_ns``, the waiting for
    other stages of a pipeline that no compute covers. Steps without any GPU activity (cut by the window) steps of
    CPU-only traces, and sums below one millisecond are left out.
    """
    rows = run.table("steps").filter(
        pl.col("compute_ns").is_not_null() & (pl.col("compute_ns") + pl.col("comm_ns") > 0)
    )
    sums = rows.group_by("input_id", "rank", "device", maintain_order=True).agg(
        pl.len().alias("steps"), *(pl.col(c).sum() for c in _SUMS)
    )
    where = ["input_id", "rank", "device"]
    for part in (schedule_waits(run), critical_path(run)):
        known = part.with_columns(pl.col("device").cast(sums.schema["device"]))
        sums = sums.join(known, on=where, how="left", nulls_equal=True, maintain_order="left")
    sums = sums.with_columns(pl.col("inline_ns").fill_null(0))
    exposed = pl.min_horizontal(pl.col("stage_exposed_ns").fill_null(0), "exposed_comm_ns")
    waiting = pl.min_horizontal(pl.col("stage_wait_ns").fill_null(0), pl.col("comm_ns"))
    return (
        sums.with_columns(
            comm_ns=pl.col("comm_ns") - waiting,
            exposed_comm_ns=pl.col("exposed_comm_ns") - exposed,
            stage_wait_ns=exposed,
        )
        .with_columns(exposed_comm_ns=pl.min_horizontal("exposed_comm_ns", "comm_ns"))
        .with_columns(
            comm_share=pl.col("comm_ns") / pl.col("duration_ns"),
            exposed_share=pl.col("exposed_comm_ns") / pl.col("duration_ns"),
            overlap_share=pl.when(pl.col("comm_ns") > 0).then(1 - pl.col("exposed_comm_ns") / pl.col("comm_ns")),
        )
        .with_columns(inline_share=pl.min_horizontal(pl.col("inline_ns") / pl.col("duration_ns"), "exposed_share"))
        .with_columns(pl.when(pl.col("inline_share") <= MOST).then("inline_share").otherwise(0.0))
        .filter(pl.col("duration_ns") >= _LEAST_NS)
        .sort("rank", "input_id", "device")
    )


def wait_share(run: Run) -> float | None:
    """Part of the matched communication time that is waiting for the last rank, 0..1; None if nothing matched."""
    rows = run.table("collectives").filter(pl.col("min_duration_ns").is_not_null())
    total = int(rows["duration_ns"].sum()) if rows.height else 0
    return 1 - int(rows["min_duration_ns"].sum()) / total if total else None
