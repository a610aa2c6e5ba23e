"""A TCP connection to a peer was refused or aborted."""

import polars as pl

from nccl_insight.base.model import Severity
from nccl_insight.facts.who.members import completed
from nccl_insight.rules.context import Context, Hits

_OFTEN = 4


def check(ctx: Context) -> Hits:
    """One finding for all lines."""
    found = ctx.lines()
    if found is None:
        return
    unreachable = found.telling("no-route")
    # Whether a process tried again and again and the log knows of no init that it finished.
    tries = found.rows.group_by("host", "pid").agg(pl.col("repeats").fill_null(1).sum().alias("n"))
    often = tries.filter(pl.col("n") >= _OFTEN)
    done = completed(ctx.run).select("host", "pid").unique()
    yield from ctx.tells(
        "found",
        rows=found,
        quiet=Severity.WARNING if (often.join(done, on=["host", "pid"], how="anti").height > 0) else Severity.INFO,
        all_unreachable=unreachable is not None and unreachable.count == found.count,
    )
