"""Who waits for whom: the waiting inside matched collectives, counted for the rank that came last."""

from collections.abc import Mapping

import polars as pl

from nccl_insight.base.bandwidth import SYNCHRONISING
from nccl_insight.base.data import dataclass
from nccl_insight.tables.run import Run, fact


def is_engine_copy() -> pl.Expr:
    """Rows of copy-engine collectives, in which nobody waits."""
    return (pl.col("source").cast(pl.String) == "kernel") & pl.col("kernel").is_null()


@dataclass(frozen=True)
class Waiting:
    """Waiting of all ranks together in ``collectives`` matched collectives: time beyond the shortest member's.

    ``for_rank``: that time by the rank that came last and so was waited for. ``of_rank``: by the rank that waited.
    """

    total_ns: int
    collectives: int
    for_rank: Mapping[int, int]
    of_rank: Mapping[int, int]


@fact
def matched(run: Run) -> pl.DataFrame:
    """Members of matched collectives in which ranks wait for each other, in order of time.

    Columns of ``collectives`` with ``last``: the member that came last (the shortest duration; the first such rank).
    """
    rows = run.table("collectives").filter(
        pl.col("match_id").is_not_null()
        & pl.col("rank").is_not_null()
        & pl.col("start_ns").is_not_null()
        & (pl.col("duration_ns") > 0)
        & pl.col("op").cast(pl.String).is_in(SYNCHRONISING)
        & ~is_engine_copy()
    )
    if rows.is_empty():
        return rows
    return (
        rows.filter(pl.len().over("match_id") > 1)
        .with_columns(
            last=pl.col("rank") == pl.col("rank").sort_by("duration_ns", "rank").first().over("match_id"),
            begin=pl.col("start_ns").min().over("match_id"),
        )
        .sort("begin", "match_id", "rank")
    )


@fact
def waiting(run: Run) -> Waiting | None:
    """The waiting in the run's matched collectives, None where none could be matched."""
    rows = matched(run)
    if rows.is_empty():
        return None
    waits = pl.col("wait_ns").fill_null(0).clip(0)
    each = rows.group_by("match_id").agg(wait=waits.sum(), last=pl.col("rank").filter(pl.col("last")).first())
    for_rank = each.group_by("last").agg(pl.col("wait").sum()).sort("last")
    of_rank = rows.group_by("rank").agg(waits.sum().alias("wait")).sort("rank")
    return Waiting(int(each["wait"].sum()), each.height, dict(for_rank.iter_rows()), dict(of_rank.iter_rows()))
