"""Communication and compute run one after the other."""

import polars as pl

from nccl_insight.facts.figures.overlap import step_summary
from nccl_insight.facts.lateness.pipeline import schedule_waits
from nccl_insight.rules._traces import ranks_of, refs_of, with_hosts
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all ranks."""
    run = ctx.run
    least = ctx["least_share"]
    bad = (
        step_summary(run)
        .filter(
            (pl.col("comm_share") >= least)
            & (pl.col("compute_ns") >= least * pl.col("duration_ns"))
            & (pl.col("overlap_share") < ctx["overlap"])
        )
        .sort("comm_share", descending=True)
    )
    if bad.is_empty():
        return
    worst = bad.row(0, named=True)
    staged = schedule_waits(run).height > 0
    own = bad.filter(pl.col("comm_share") - pl.col("inline_share") >= least)
    yield ctx.says(
        "found",
        refs_of(bad, "comm {comm_ns:ns}, compute {compute_ns:ns}, overlap {overlap_share:.1%}"),
        whom=with_hosts(run, ranks_of(bad)),
        how_much="None" if (share := worst["overlap_share"]) < 0.005 else f"Only {share:.0%}",
        worst=worst,
        fine=staged or own.is_empty(),
    )
