"""Init finished on all ranks and the first collective did not."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.absent import absences
from nccl_insight.facts.ends import ends
from nccl_insight.facts.errors import causes
from nccl_insight.facts.nvls import one_sided
from nccl_insight.model import CannotJudge, Hit
from nccl_insight.rules._errors import trouble
from nccl_insight.rules.context import Context
from nccl_insight.rules.natures import names
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Iterator[Hit | CannotJudge]:
    """A watchdog that saw no collective complete, after an init that did."""
    run = ctx.run
    ranks = run.table("ranks")
    if ranks.is_empty() or not bool(ranks["init_complete"].fill_null(False).all()):
        return
    watchdog = trouble(run, "watchdog-timeout")
    first = watchdog.telling("first-operation") if watchdog else None
    if first is not None and (absences(run) or _explained(run)):
        # The rank that did not come, or the failure, is the finding; that nothing completed follows from it.
        return
    if first is None:
        loud = causes(run).filter(pl.col("loud")).height
        if (
            not run.has("connections")
            and not run.has("calls")
            and not loud
            and ranks["destroyed"].cast(pl.String).eq("no").all()
        ):
            yield CannotJudge(
                "the log ends after init: NCCL prints nothing more while it works or hangs",
                "add NCCL_DEBUG_SUBSYS=INIT,ENV,COLL, or the framework's watchdog output",
            )
        return
    yield from ctx.report(
        "Init completed, but the first collective never finished",
        explanation="The ranks found each other, so launch and bootstrap are right. No collective has completed "
        "since: data does not move on one of the paths.",
        rows=first,
    )


def _explained(run: Run) -> bool:
    """Whether the log holds a failure that keeps a collective from completing."""
    rows = causes(run).filter(pl.col("loud") & pl.col("cause").is_in(list(names("any"))))
    return rows.height > 0 or bool(ends(run)) or bool(one_sided(run))
