"""Ranks of a process group are at different collectives: some never reached what others wait in."""

from nccl_insight.base.model import Hit
from nccl_insight.base.units import rank_words
from nccl_insight.facts.progress import flight_recorder
from nccl_insight.facts.progress.absent import Absent, absences
from nccl_insight.facts.progress.claims import DUMPS, RAS
from nccl_insight.facts.progress.waitfor import verdict
from nccl_insight.facts.progress.watchdog import DEFAULT, far_apart, mixed
from nccl_insight.rules._absent import subject, with_others
from nccl_insight.rules.context import Context, Hits

_LONG = 56


def check(ctx: Context) -> Hits:
    """One finding for each set of ranks that others wait for, whatever sources name it."""
    run = ctx.run
    dumped = flight_recorder.dumped(run)
    if len(dumped) == 1 and not verdict(run, DUMPS).claims:
        yield ctx.cannot("one-dump")
    elif not dumped and run.has("flight_recorder"):
        yield ctx.cannot("untold")
    if mixed(run):
        yield ctx.cannot("attempts")
    for item in absences(run):
        if item.lead.source == DUMPS:
            yield with_others(run, _from_dumps(ctx, item, len(dumped), len(verdict(run, DUMPS).waiting)), item)
        elif item.lead.source == RAS:
            yield with_others(run, _from_ras(ctx, item), item)
        elif item.lead.proof in ("enqueued", "behind"):
            yield with_others(run, _from_watchdog(ctx, item), item)
    if (apart := far_apart(run)) is not None and not absences(run):
        yield ctx.says(
            "found", apart.evidence, whom=(), first_s=apart.first_s, apart=apart, behind=apart.others_seq - apart.seq
        )


def _from_dumps(ctx: Context, item: Absent, dumped: int, waiting: int) -> Hit:
    """What the dumps say of those that did not come, did not finish, did not begin, or gave no dump."""
    lead = item.lead
    op = lead.op or "unknown"
    # The sizes of a long operation stand in what was observed; the title names its group in full.
    long = len(op) + len(lead.group) + len(rank_words(lead.waiting)) >= _LONG
    seq = lead.last if lead.proof == "lagging" else lead.seq
    what = f"collective {seq} ({op.partition(' ')[0] if long else op}) of group {lead.group}"
    return ctx.says(
        "from-dumps", tuple(e for c in (lead, *item.also) for e in c.evidence)[:4], whom=(),
        subject=subject(item), what=what if seq is not None else "a collective",
        wait="waits" if len(lead.waiting) == 1 else "wait",
        it=f"in {what}" if seq is not None else "for them" if len(lead.ranks) > 1 else "for it",
        undumped=lead.proof == "undumped", outside=lead.proof == "not-entered",
        lagging=lead.proof == "lagging", more=waiting > len(lead.waiting), waiting=waiting, dumped=dumped,
        lead=lead,
    )  # fmt: skip


def _from_ras(ctx: Context, item: Absent) -> Hit:
    """RAS counts fewer operations of some ranks, and the job stands."""
    lead = item.lead
    op = f"{lead.op} operations" if lead.op else "operations"
    return ctx.says(
        "from-ras",
        (),
        comm_id=f"0x{lead.comm_id.lstrip('0')}" if lead.comm_id else None,
        subject=subject(item),
        last=lead.last or 0,
        op=op,
        seq=lead.seq or 0,
        lead=lead,
    )


def _from_watchdog(ctx: Context, item: Absent) -> Hit:
    """Ranks whose oldest unfinished operation, or last issued one, is below what the others of the group wait in."""
    lead = item.lead
    seq, last = lead.seq or 0, lead.last or 0
    return ctx.says(
        "from-watchdog", (), first_s=lead.first_s, last_s=lead.first_s, subject=subject(item),
        lead=lead, op=lead.op or "operation unknown", issued=lead.proof == "enqueued",
        after=lead.proof == "enqueued" and last > 0, named=lead.group not in (DEFAULT, "?"),
        unnamed=lead.group == "?", within=not lead.world, has_last=lead.last is not None, last=last,
        seq=seq, far=lead.last is not None and seq - last > 1, apart=seq - last,
    )  # fmt: skip
