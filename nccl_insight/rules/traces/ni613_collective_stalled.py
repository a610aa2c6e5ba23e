"""All ranks of a group are in the same operation and none finishes it."""

import polars as pl

from nccl_insight.base.model import Hit
from nccl_insight.base.units import capital
from nccl_insight.facts.progress import flight_recorder
from nccl_insight.facts.progress.absent import absences, refuted
from nccl_insight.facts.progress.claims import DUMPS, WATCHDOG
from nccl_insight.facts.progress.journey import last_of_input
from nccl_insight.facts.progress.waitfor import Stalled, verdict
from nccl_insight.language.load import playing
from nccl_insight.rules._absent import LIST_DUMPS
from nccl_insight.rules._errors import Trouble
from nccl_insight.rules._traces import with_hosts
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for the operation that was issued first; the others wait behind it."""
    run = ctx.run
    if absences(run):
        return
    if flight_recorder.mismatches(run) or verdict(run, DUMPS).crossed:
        return
    for source, told in ((DUMPS, _from_dumps), (WATCHDOG, _from_watchdog)):
        if found := verdict(run, source).stalled:
            yield told(ctx, found[0], len(found) - 1)
            return
    if not flight_recorder.dumped(run):
        yield from _unanswered(ctx)


def _unanswered(ctx: Context) -> Hits:
    """An engine that waits for its workers, says so again and again, and nothing else."""
    found = ctx.lines()
    if found is None:
        return
    said = Trouble(found.rows.filter(pl.col("message").is_in(playing("unanswered"))))
    if said.count > 1 and last_of_input(ctx.run, said.rows).height:
        yield from ctx.tells("unanswered", rows=said, said=said)


def _from_watchdog(ctx: Context, item: Stalled, more: int) -> Hit:
    """A group of which every rank timed out in the same operation: nobody is missing."""
    return ctx.says(
        "from-watchdog",
        item.evidence,
        whom=(),
        first_s=item.first_s,
        last_s=item.first_s,
        item=item,
        op=item.op or "operation unknown",
        more=more,
        single=more == 1,
        list_dumps=LIST_DUMPS,
    )


def _from_dumps(ctx: Context, item: Stalled, more: int) -> Hit:
    return ctx.says(
        "from-dumps",
        item.evidence,
        whom=with_hosts(ctx.run, item.ranks),
        item=item,
        more=more,
        single=more == 1,
        c="".join(
            f" {capital(c.source)} says otherwise ({c.said}); the dumps are the better evidence."
            for c in refuted(ctx.run)[:2]
        ),
    )
