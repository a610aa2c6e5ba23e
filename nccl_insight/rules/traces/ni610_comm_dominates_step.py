"""Communication dominates the step time."""

import polars as pl

from nccl_insight.base.model import Severity
from nccl_insight.facts.figures.overlap import step_summary, wait_share
from nccl_insight.rules._gains import late_first, mend_first
from nccl_insight.rules._traces import ranks_of, refs_of, with_hosts
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all ranks."""
    run = ctx.run
    limit = ctx["share"]
    bad = step_summary(run).filter(pl.col("comm_share") >= limit).sort("comm_share", descending=True)
    if bad.is_empty():
        return
    worst = bad.row(0, named=True)
    waiting = wait_share(run)
    first = mend_first(run, worst["comm_ns"] / max(worst["duration_ns"], 1) - limit)
    costly = (bad["exposed_share"] - bad["inline_share"]).max()
    yield ctx.says(
        "found",
        refs_of(bad, "{comm_ns:ns} of {duration_ns:ns}"),
        whom=with_hosts(run, ranks_of(bad)),
        severity=None if isinstance(costly, float) and costly >= ctx["exposed_share"] and not first else Severity.INFO,
        first=first,
        late=late_first(run),
        worst=worst,
        waits=waiting is not None,
        waiting=waiting,
    )
