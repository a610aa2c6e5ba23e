"""Ranks of a process group are at different collectives: some never reached what others wait in."""

from nccl_insight.base.model import CannotJudge, Hit
from nccl_insight.base.units import rank_words
from nccl_insight.facts import flight_recorder
from nccl_insight.facts.absent import Absent, absences
from nccl_insight.facts.claims import DUMPS, RAS
from nccl_insight.facts.waitfor import verdict
from nccl_insight.facts.watchdog import DEFAULT, far_apart, mixed
from nccl_insight.rules._absent import subject, with_others
from nccl_insight.rules.context import Context, Hits, says

_LONG = 56


def check(ctx: Context) -> Hits:
    """One finding for each set of ranks that others wait for, whatever sources name it."""
    run = ctx.run
    dumped = flight_recorder.dumped(run)
    if len(dumped) == 1 and not verdict(run, DUMPS).claims:
        yield CannotJudge("the Flight Recorder dump of one rank only", "add the dumps of the other ranks of the job")
    elif not dumped and run.has("flight_recorder"):
        yield ctx.cannot("untold")
    if mixed(run):
        yield CannotJudge("the time-outs of several attempts in one file", "analyze the lines of one attempt alone")
    for item in absences(run):
        if item.lead.source == DUMPS:
            yield with_others(run, _from_dumps(item, len(dumped), len(verdict(run, DUMPS).waiting)), item)
        elif item.lead.source == RAS:
            yield with_others(run, _from_ras(item), item)
        elif item.lead.proof in ("enqueued", "behind"):
            yield with_others(run, _from_watchdog(item), item)
    if (apart := far_apart(run)) is not None and not absences(run):
        yield says(
            "rank-desync.found",
            apart.evidence,
            whom=(),
            first_s=apart.first_s,
            apart=apart,
            behind=apart.others_seq - apart.seq,
        )


def _from_dumps(item: Absent, dumped: int, waiting: int) -> Hit:
    """What the dumps say of those that did not come, did not finish, did not begin, or gave no dump."""
    lead = item.lead
    others, wait = rank_words(lead.waiting), "waits" if len(lead.waiting) == 1 else "wait"
    op = lead.op or "unknown"
    # The sizes of a long operation stand in what was observed; the title names its group in full.
    op = op if len(op) + len(lead.group) + len(others) < _LONG else op.partition(" ")[0]
    what = f"collective {lead.seq} ({op}) of group {lead.group}" if lead.seq is not None else "a collective"
    for_it = f"in {what}" if lead.seq is not None else f"for {'them' if len(lead.ranks) > 1 else 'it'}"
    title = {
        "undumped": f"did not produce a dump, and {others} {wait} {for_it}",
        "not-entered": f"issued {what} but never entered it; {others} {wait}",
        "lagging": f"never finished {what}; {others} went on",
    }.get(lead.proof, f"never issued {what}; {others} {wait} in it")
    explanation = {
        "undumped": "A process that ended or that cannot write leaves no dump. If the dumps of these ranks were only "
        "not collected, add them.",
        "not-entered": "The CPU of these ranks has issued the collective and their GPU has not started it: an earlier "
        "kernel or collective of theirs does not end, or another process group runs in a different order.",
    }.get(lead.proof, "The dumps number the collectives of a group alike on all its ranks.")
    more = f" In all {waiting:,} ranks wait, directly or through other groups." if waiting > len(lead.waiting) else ""
    return says(
        "rank-desync.from-dumps",
        tuple(e for c in (lead, *item.also) for e in c.evidence)[:4],
        whom=(),
        explanation=explanation + more,
        title=f"{subject(item)} {title}",
        undumped=lead.proof == "undumped",
        dumped=dumped,
        lead=lead,
    )


def _from_ras(item: Absent) -> Hit:
    """RAS counts fewer operations of some ranks, and the job stands."""
    lead = item.lead
    op = f"{lead.op} operations" if lead.op else "operations"
    return says(
        "rank-desync.from-ras",
        (),
        comm_id=f"0x{lead.comm_id.lstrip('0')}" if lead.comm_id else None,
        subject=subject(item),
        last=lead.last or 0,
        op=op,
        seq=lead.seq or 0,
        lead=lead,
    )


def _from_watchdog(item: Absent) -> Hit:
    """Ranks whose oldest unfinished operation, or last issued one, is below what the others of the group wait in."""
    lead = item.lead
    seq, last = lead.seq or 0, lead.last
    group = "" if lead.group in (DEFAULT, "?") else f" of process group {lead.group}"
    far = last is not None and seq - last > 1
    behind = f"{seq - (last or 0):,} apart" if far else "one operation behind"
    if lead.proof == "enqueued":
        title = (
            f"{subject(item)} issued no collective{f' after {last}' if last else ''}{group}; "
            f"{rank_words(lead.waiting)} waited in "
            f"{seq} ({lead.op or 'operation unknown'})"
        )
    else:
        title = f"{subject(item)} timed out in collective {last}{group}, {rank_words(lead.waiting)} in {seq}: {behind}"
    note = (
        ""
        if lead.group != "?"
        else (
            " The lines do not name the process group; if these ranks reported about different groups, the numbers "
            "cannot be compared."
        )
    )
    numbers = "" if lead.world else " The rank numbers are those within the process group."
    return says(
        "rank-desync.from-watchdog",
        (),
        title=title,
        first_s=lead.first_s,
        last_s=lead.first_s,
        note=note,
        numbers=numbers,
        lead=lead,
        has_last=last is not None,
        last=last,
        seq=seq,
    )
