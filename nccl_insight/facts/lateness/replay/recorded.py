"""The timeline of collectives alone: CPU operations, NCCL Inspector, traces that keep nothing else.

What a rank did between two operations, and before the first one in its step, counts as its work. Records without
starts are put behind each other: members of a collective leave it together, so one that was shorter in it than another
had come later by the difference.
"""

import polars as pl

from nccl_insight.base.words import words
from nccl_insight.facts.lateness.replay.timeline import Refused
from nccl_insight.facts.lateness.waiting import is_engine_copy
from nccl_insight.readers.kernels import COMM, COMPUTE
from nccl_insight.tables.run import Run

_SOURCES = ("kernel", "cpu_op", "inspector", "nccl_tests")
_KEPT = words("input_id rank step stream device by_order")
_WORKS = 100
"""Less between two operations is no work."""


def recorded(run: Run) -> pl.DataFrame:
    """Rows as the replay takes them, of matched operations and of what stands between them. Raises :class:`Refused`."""
    rows = run.table("collectives").filter(
        pl.col("rank").is_not_null()
        & (pl.col("duration_ns") > 0)
        & pl.col("source").cast(pl.String).is_in(_SOURCES)
        & ~is_engine_copy()
    )
    if rows.drop_nulls("match_id")["rank"].n_unique() < 2:
        raise Refused("few")
    rows = rows.with_columns(pl.col("op").cast(pl.String), meeting=pl.col("match_id").cast(pl.Int64))
    if rows["start_ns"].null_count():
        rows = rows.drop_nulls("meeting")
        members = rows.group_by("meeting").agg(pl.col("rank").sort())["rank"]
        if members.n_unique() != members.explode().n_unique() / members.list.len().max():  # type: ignore[operator]
            raise Refused("no-starts")
        # Groups share no rank: each operation stands right behind the one before it.
        nth = pl.int_range(pl.len()).over("rank")
        if rows.select("meeting", nth=nth).unique()["meeting"].is_duplicated().any():
            raise Refused("orders")
        ends = rows.select(pl.col("duration_ns").max().over("meeting").alias("took"), "rank").select(
            pl.col("took").cum_sum().over("rank")
        )
        rows = rows.with_columns(start_ns=ends.to_series() - pl.col("duration_ns"))
    rows = rows.sort("rank", "start_ns").with_columns(
        end_ns=pl.col("start_ns") + pl.col("duration_ns"),
        name=pl.struct("op", "size_bytes", "process_group").hash(1),
        kind=pl.lit(COMM, pl.Int8),
        stream=pl.lit(0, pl.Int64),
        device=pl.lit(0, pl.Int32),
        by_order=False,
        launch_ns=pl.lit(None, pl.Int64),
    )
    steps = run.table("steps").select("input_id", "rank", "step", begun="start_ns").drop_nulls("step")
    before = pl.col("end_ns").cum_max().shift(1).over("rank").fill_null(pl.col("begun"))
    work = (
        rows.join(steps.unique(["input_id", "rank", "step"]), on=["input_id", "rank", "step"], how="left")
        .with_columns(begun=before)
        .filter(pl.col("start_ns") - pl.col("begun") > _WORKS)
        .select(*_KEPT, start_ns="begun", end_ns="start_ns", name=pl.col("name").hash(2), kind=pl.lit(COMPUTE, pl.Int8))
    )
    return pl.concat([rows.drop("duration_ns"), work], how="diagonal_relaxed")
