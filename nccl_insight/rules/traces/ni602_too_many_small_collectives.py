"""Most collectives are too small to use the bandwidth."""

import polars as pl

from nccl_insight.base.bandwidth import BULK
from nccl_insight.base.model import Hit
from nccl_insight.base.units import format_bytes, format_ns
from nccl_insight.facts.progress.calls import first_small, median_size, small_calls
from nccl_insight.facts.setup.settings import refs
from nccl_insight.rules._traces import ranks_of
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run

_SHORT_NS = 25_000


def check(ctx: Context) -> Hits:
    """One finding from traces, else one from the log."""
    run = ctx.run
    if run.has("capture_ranks"):
        return  # a sweep over sizes of our own
    limit, costly = ctx["small_bytes"], pl.col("small_ns") > ctx["time_share"] * pl.col("total_ns")
    many = (pl.col("calls") >= ctx["least_calls"]) & (pl.col("small") > ctx["share"] * pl.col("calls"))
    traced = _traced(run, limit)
    if traced.height:
        bad = traced.filter(many & (costly | (pl.col("small") >= ctx["per_step"] * pl.col("steps"))))
    else:
        unknown = pl.lit(None, pl.Int64)
        traced = small_calls(run, limit).with_columns(small_ns=unknown, total_ns=unknown)
        bad = traced.filter(many)
    if bad.height:
        bad = bad.with_columns(costly=costly)
        yield _hit(ctx, bad, limit)


def _traced(run: Run, limit: float) -> pl.DataFrame:
    """Collectives of traces by rank."""
    short = pl.col("size_bytes").is_null() & (pl.col("duration_ns") < _SHORT_NS)
    small = (pl.col("size_bytes") < limit).fill_null(False) | short
    source = pl.col("source").cast(pl.String)
    return (
        run.lazy("collectives")
        .filter(pl.col("op").is_in(list(BULK)) & ~source.is_in(["nccl_tests"]))
        .filter(pl.col("size_bytes").is_not_null() | (source == "kernel"))
        .group_by("rank", maintain_order=True)
        .agg(
            calls=pl.len(),
            small=small.sum(),
            small_bytes=pl.col("size_bytes").filter(small).sum(),
            median_bytes=pl.col("size_bytes").median(),
            median_ns=pl.col("duration_ns").median(),
            steps=pl.col("step").drop_nulls().n_unique().clip(1),
            small_ns=pl.col("duration_ns").filter(small).sum(),
            total_ns=pl.col("duration_ns").sum(),
        )
        .collect(engine="in-memory")
    )


def _hit(ctx: Context, bad: pl.DataFrame, limit: float) -> Hit:
    worst = bad.sort("small", descending=True, maintain_order=True).row(0, named=True)
    logged = worst["total_ns"] is None
    median = median_size(ctx.run, worst) if logged else worst["median_bytes"]
    sized = median is not None
    evidence = refs(first_small(ctx.run, limit, 2), 2) if logged else ()
    return ctx.says(
        "found",
        evidence,
        whom=ranks_of(bad),
        percent=100 * worst["small"] / worst["calls"],
        worst=worst,
        sized=f"are smaller than {format_bytes(limit)}" if sized else f"run below {format_ns(_SHORT_NS)}",
        sized_said=sized,
        fused=max(1, round(worst["small_bytes"] / (25 << 20))),
        has_median=median is not None,
        median=median,
        unsure=sized and not logged,
    )
