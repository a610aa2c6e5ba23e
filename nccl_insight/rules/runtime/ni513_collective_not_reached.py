"""Some ranks stopped before a collective that the others issued."""

from typing import Any

import polars as pl

from nccl_insight.base.model import Confidence, Hit
from nccl_insight.base.units import rank_words
from nccl_insight.facts.progress.absent import Absent, absences
from nccl_insight.facts.progress.calls import log_is_cut
from nccl_insight.facts.progress.claims import CALLS, WATCHDOG
from nccl_insight.facts.progress.tallies import counted
from nccl_insight.facts.progress.waitfor import ended_ranks, verdict
from nccl_insight.facts.progress.watchdog import waited
from nccl_insight.facts.setup.settings import refs
from nccl_insight.rules._absent import READ_LAST, subject, with_others
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """One finding per communicator with ranks behind, and one for ranks that are silent while all others time out."""
    run = ctx.run
    for item in absences(run):
        # Whether the output of these ranks may just not be here, so that they may wait like the others.
        ended = ended_ranks(run).issuperset(item.lead.ranks)
        asks = item.confidence is Confidence.LOW and item.lead.proof in ("silent", "gap") and not ended
        if hit := _hit(ctx, item, asks):
            yield with_others(run, hit, item, asks)
    if not run.has("calls"):
        return
    if log_is_cut(run):
        yield ctx.cannot("untold")
    elif not all(group.comparable for group in counted(run, CALLS)):
        yield ctx.cannot("untold-ranks-communicator")


def _closed(run: Run, item: Absent) -> pl.DataFrame:
    """The lines with which all of these ranks closed their communicators in order; empty where one did not."""
    rows = run.table("ranks").filter(pl.col("rank").is_in(item.lead.ranks))
    orderly = (rows["destroyed"].cast(pl.String) == "destroyed").fill_null(False)
    return rows.with_columns(line="destroyed_line") if orderly.all() else rows.clear()


def _told(item: Absent) -> dict[str, Any]:
    """What all texts of this check may say."""
    lead = item.lead
    op, limit, one = lead.op or "operation unknown", (lead.ran_ms or 0) / 1000, len(lead.ranks) == 1
    return {"subject": subject(item), "lead": lead, "op": op, "read_last": READ_LAST, "limit": limit, "one": one}


def _hit(ctx: Context, item: Absent, asks: bool) -> Hit | None:
    """What a proof of this family says; None where another check tells it."""
    run = ctx.run
    lead = item.lead
    if lead.proof == "calls":
        return ctx.says(
            "stopped", (), comm_id=lead.comm_id, most=lead.seq or 0, reached=lead.last or 0,
            next=(lead.last or 0) + 1, absence=f"no further call of {rank_words(lead.ranks)} on this communicator",
            **_told(item),
        )  # fmt: skip
    if lead.proof == "barrier":
        observed = (lead.evidence[0].text if lead.evidence else None) or ""
        return ctx.says("barrier", (), observed=observed, within=not lead.world, **_told(item))
    if lead.proof == "stack":
        return ctx.says("elsewhere", (), next_step=READ_LAST, **_told(item))
    if asks:
        return ctx.says("unsure", (), first_s=lead.first_s, **_told(item))
    if lead.proof == "gap":
        ended = ended_ranks(run).issuperset(lead.ranks)
        return ctx.says("unseen", (), first_s=lead.first_s, ended=ended, **_told(item))
    if lead.proof != "silent":
        return None
    if (gone := _closed(run, item)).height:
        return ctx.says("left", refs(gone), **_told(item))
    first, waiting = lead.seq is not None and lead.seq <= 1, len(verdict(run, WATCHDOG).waiting)
    timed, limits = waited(run, lead.waiting)
    return ctx.says(
        "silent", (), first_s=lead.first_s, last_s=lead.first_s, waiting=waiting,
        more_wait=waiting > len(lead.waiting), first=first, prepares=first and len(lead.ranks) == 1, timed=timed,
        limits=limits, waited=timed or lead.waiting, gave_up=timed and {*lead.waiting}.difference(timed), **_told(item),
    )  # fmt: skip
