"""Some ranks stopped before a collective that the others issued."""

import polars as pl

from nccl_insight.base.model import Hit
from nccl_insight.base.units import plural, rank_words
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
            yield with_others(run, _elsewhere(item), item)
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
    at = f"collective {lead.seq} ({lead.op or 'operation unknown'})"
    one = len(lead.ranks) == 1
    return says("collective-not-reached.left", refs(gone), subject=subject(item), lead=lead, at=at, one=one)


def _stopped(item: Absent) -> Hit:
    lead = item.lead
    reached, most = lead.last or 0, lead.seq or 0
    did = (
        f"stopped after {plural(reached, 'collective')}"
        if reached
        else "never issued the first collective of its group"
    )
    return says(
        "collective-not-reached.stopped",
        (),
        observed=plural(reached, "call"),
        comm_id=lead.comm_id,
        absence=f"no further call of {rank_words(lead.ranks)} on this communicator",
        subject=subject(item),
        did=did,
        lead=lead,
        most=most,
        reached=reached + 1,
    )


def _barrier(item: Absent) -> Hit:
    lead = item.lead
    limit = f" within {lead.ran_ms / 1000:,.0f} s" if lead.ran_ms else ""
    of = "" if lead.world else " of a smaller process group, which numbers its ranks"
    return says(
        "collective-not-reached.barrier",
        (),
        observed=(lead.evidence[0].text if lead.evidence else None) or "",
        subject=subject(item),
        of=of,
        limit=limit,
        lead=lead,
        read_last=READ_LAST,
    )


def _elsewhere(item: Absent) -> Hit:
    lead = item.lead
    return says("collective-not-reached.elsewhere", (), next_step=READ_LAST, lead=lead)


def _unseen(item: Absent, ended: bool) -> Hit:
    lead, who = item.lead, rank_words(item.lead.ranks)
    return says(
        "collective-not-reached.unseen",
        (),
        first_s=lead.first_s,
        subject=subject(item),
        lead=lead,
        seq=f" in collective {lead.seq} ({lead.op or 'operation unknown'})" if lead.seq is not None else "",
        who=who,
        ended=ended,
    )


def _silent(item: Absent, waiting: int) -> Hit:
    lead = item.lead
    limit = f" for {lead.ran_ms / 1000:,.0f} s" if lead.ran_ms else ""
    first = lead.seq is not None and lead.seq <= 1
    prepares = first and len(lead.ranks) == 1
    return says(
        "collective-not-reached.silent",
        (),
        first_s=lead.first_s,
        last_s=lead.first_s,
        subject=subject(item),
        lead=lead,
        op=lead.op or "operation unknown",
        limit=limit,
        more_wait=waiting > len(lead.waiting),
        waiting=waiting,
        first=first,
        read_last=READ_LAST,
        prepares=prepares,
    )
