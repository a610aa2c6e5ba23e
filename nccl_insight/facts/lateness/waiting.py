"""Matched collectives of traces, and the rank that came last to each."""

import polars as pl

from nccl_insight.base.bandwidth import SYNCHRONISING
from nccl_insight.tables.run import Run, fact


def is_engine_copy() -> pl.Expr:
    """Rows of copy-engine collectives, in which nobody waits."""
    return (pl.col("source").cast(pl.String) == "kernel") & pl.col("kernel").is_null()


@fact
def matched(run: Run) -> pl.DataFrame:
    """Members of matched collectives in which ranks wait for each other, in order of time.

    Columns of ``collectives`` with ``last``: the member that came last (the shortest duration; the first such rank).
    ``wait_ns`` is 0 where it is not known.
    """
    rows = run.table("collectives").filter(
        pl.all_horizontal(pl.col("match_id", "rank", "start_ns").is_not_null())
        & (pl.col("duration_ns") > 0)
        & pl.col("op").cast(pl.String).is_in(SYNCHRONISING)
        & ~is_engine_copy()
    )
    return (
        rows.filter(pl.len().over("match_id") > 1)
        .with_columns(
            pl.col("wait_ns").fill_null(0).clip(0),
            last=pl.col("rank") == pl.col("rank").sort_by("duration_ns", "rank").first().over("match_id"),
            begin=pl.col("start_ns").min().over("match_id"),
        )
        .sort("begin", "match_id", "rank")
    )


@fact
def awaited(run: Run) -> pl.DataFrame:
    """What others wait for each rank, which came last, the most first: ``rank, wait_ns, unseen_ns`` (the part in its
    first matched collective, before which little of it was recorded)."""
    each = (
        matched(run)
        .with_columns(wait_ns=pl.col("wait_ns").sum().over("match_id"), first=pl.int_range(pl.len()).over("rank") == 0)
        .filter("last")
    )
    sums = each.group_by("rank").agg(pl.col("wait_ns").sum(), unseen_ns=pl.col("wait_ns").filter("first").sum())
    return sums.sort("wait_ns", "rank", descending=[True, False])
