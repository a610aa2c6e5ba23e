"""Some ranks stopped before a collective that the others issued."""

import polars as pl

from nccl_insight.base.model import Hit
from nccl_insight.base.units import rank_words
from nccl_insight.facts.absent import Absent, absences
from nccl_insight.facts.calls import log_is_cut
from nccl_insight.facts.claims import CALLS, WATCHDOG
from nccl_insight.facts.settings import refs
from nccl_insight.facts.tallies import counted
from nccl_insight.facts.waitfor import ended_ranks, verdict
from nccl_insight.rules._absent import READ_LAST, subject, with_others
from nccl_insight.rules.context import Context, Hits, says
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """One finding per communicator with ranks behind, and one for ranks that are silent while all others time out."""
    run = ctx.run
    for item in absences(run):
        if item.lead.proof == "calls":
            yield with_others(run, _stopped(item), item)
        elif item.lead.proof == "silent":
            gone = _closed(run, item)
            hit = _silent(item, len(verdict(run, WATCHDOG).waiting)) if gone.is_empty() else _left(item, gone)
            yield with_others(run, hit, item)
        elif item.lead.proof == "barrier":
            yield with_others(run, _barrier(item), item)
        elif item.lead.proof == "stack":
            hit = says("collective-not-reached.elsewhere", (), next_step=READ_LAST, lead=item.lead)
            yield with_others(run, hit, item)
        elif item.lead.proof == "gap":
            yield with_others(run, _unseen(item, ended_ranks(run).issuperset(item.lead.ranks)), item)
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


def _left(item: Absent, gone: pl.DataFrame) -> Hit:
    lead = item.lead
    op, one = lead.op or "operation unknown", len(lead.ranks) == 1
    return says("collective-not-reached.left", refs(gone), subject=subject(item), lead=lead, op=op, one=one)


def _stopped(item: Absent) -> Hit:
    lead = item.lead
    return says(
        "collective-not-reached.stopped",
        (),
        comm_id=lead.comm_id,
        absence=f"no further call of {rank_words(lead.ranks)} on this communicator",
        subject=subject(item),
        lead=lead,
        most=lead.seq or 0,
        reached=lead.last or 0,
        next=(lead.last or 0) + 1,
    )


def _barrier(item: Absent) -> Hit:
    lead = item.lead
    observed = (lead.evidence[0].text if lead.evidence else None) or ""
    limit, who = (lead.ran_ms or 0) / 1000, subject(item)
    return says(
        "collective-not-reached.barrier", (), observed=observed, subject=who, limit=limit, lead=lead,
        read_last=READ_LAST, within=not lead.world,
    )  # fmt: skip


def _unseen(item: Absent, ended: bool) -> Hit:
    lead = item.lead
    return says(
        "collective-not-reached.unseen",
        (),
        first_s=lead.first_s,
        subject=subject(item),
        lead=lead,
        op=lead.op or "operation unknown",
        numbered=lead.seq is not None,
        ended=ended,
    )


def _silent(item: Absent, waiting: int) -> Hit:
    lead = item.lead
    first = lead.seq is not None and lead.seq <= 1
    return says(
        "collective-not-reached.silent",
        (),
        first_s=lead.first_s,
        last_s=lead.first_s,
        subject=subject(item),
        lead=lead,
        op=lead.op or "operation unknown",
        limit=(lead.ran_ms or 0) / 1000,
        more_wait=waiting > len(lead.waiting),
        waiting=waiting,
        first=first,
        read_last=READ_LAST,
        prepares=first and len(lead.ranks) == 1,
    )
