"""NVLS that failed on some ranks of a communicator only: NCCL 2.27 and 2.28 go on without it there, and all hang."""

import polars as pl

from nccl_insight.facts.said.topics import telling
from nccl_insight.tables.run import Run, fact


@fact
def failures(run: Run) -> pl.DataFrame:
    """Lines of nvls.cc, also of level INFO, that report a failed call or that NCCL goes on without NVLS.

    Rows of table ``errors``, in reading order.
    """
    return telling(run.table("errors"), "nvls-failed")


def one_sided(run: Run) -> tuple[tuple[int, ...], tuple[str, ...]] | None:
    """Ranks and hosts on which NVLS failed while other ranks of the log reported none; None where all or nobody did."""
    rows = failures(run)
    ranks = run.table("ranks").select("rank", "host").drop_nulls("rank").unique()
    mine = rows["rank"].drop_nulls().unique().sort().to_list()
    if not mine or ranks["rank"].n_unique() < 2 or len(mine) >= ranks["rank"].n_unique():
        return None
    return tuple(mine), tuple(rows["host"].drop_nulls().unique().sort().to_list())
