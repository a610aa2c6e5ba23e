"""Some ranks stopped before a collective that the others issued."""

from nccl_insight.base.model import CannotJudge, Hit
from nccl_insight.base.units import capital, plural, rank_words
from nccl_insight.facts.absent import Absent, absences
from nccl_insight.facts.calls import log_is_cut
from nccl_insight.facts.claims import CALLS, WATCHDOG
from nccl_insight.facts.tallies import counted
from nccl_insight.facts.waitfor import verdict
from nccl_insight.rules._absent import READ_LAST, subject, with_others
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding per communicator with ranks behind, and one for ranks that are silent while all others time out."""
    run = ctx.run
    for item in absences(run):
        if item.lead.proof == "calls":
            yield with_others(run, _stopped(item), item)
        elif item.lead.proof == "silent":
            yield with_others(run, _silent(item, len(verdict(run, WATCHDOG).waiting)), item)
        elif item.lead.proof == "barrier":
            yield with_others(run, _barrier(item), item)
        elif item.lead.proof == "stack":
            yield with_others(run, _elsewhere(item), item)
        elif item.lead.proof == "gap":
            yield with_others(run, _unseen(item), item)
    if not run.has("calls"):
        return
    if log_is_cut(run):
        yield CannotJudge(
            "lines are missing from the log, so calls cannot be counted",
            "keep one complete log per rank: NCCL_DEBUG_FILE=nccl.%h.%p",
        )
    elif not all(group.comparable for group in counted(run, CALLS)):
        yield CannotJudge(
            "ranks of a communicator are at many different calls, as in a log cut while the job ran",
            "analyze the log after the job has ended",
        )


def _stopped(item: Absent) -> Hit:
    lead = item.lead
    reached, most = lead.last or 0, lead.seq or 0
    did = (
        f"stopped after {plural(reached, 'collective')}"
        if reached
        else "never issued the first collective of its group"
    )
    return Hit(
        title=f"{subject(item)} {did}; {plural(len(lead.waiting), 'rank')} went on to {most}",
        next_step=f"py-spy dump --pid <pid of rank {lead.ranks[0]}>   # while it hangs; then read what that rank "
        "printed last",
        explanation=f"The next collective of this communicator, {lead.op} number {reached + 1}, was issued by the "
        "other ranks and never by these. The others wait for them.",
        observed=plural(reached, "call"),
        expected=plural(most, "call"),
        unit="calls",
        comm_id=lead.comm_id,
        absence=f"no further call of {rank_words(lead.ranks)} on this communicator",
    )


def _barrier(item: Absent) -> Hit:
    lead = item.lead
    limit = f" within {lead.ran_ms / 1000:,.0f} s" if lead.ran_ms else ""
    of = "" if lead.world else " of a smaller process group, which numbers its ranks"
    return Hit(
        title=f"{subject(item)} did not come to a monitored barrier of torch{of}{limit}",
        next_step=f"py-spy dump --pid <pid of rank {lead.ranks[0]}>   # while it hangs; then {READ_LAST}",
        explanation="Rank 0 asks every rank one by one whether it has come, and names those that have not: they are "
        "somewhere else in the program, or gone.",
        observed=(lead.evidence[0].text if lead.evidence else None) or "",
    )


def _elsewhere(item: Absent) -> Hit:
    lead = item.lead
    return Hit(
        title=f"{capital(lead.said)}, in which {rank_words(lead.waiting)} wait",
        next_step=READ_LAST,
        explanation="Collectives time out, and the stacks show who is not in one.",
        observed=lead.said,
    )


def _unseen(item: Absent) -> Hit:
    lead, who = item.lead, rank_words(item.lead.ranks)
    return Hit(
        title=f"{subject(item)} printed nothing, while {rank_words(lead.waiting)} timed out"
        + (f" in collective {lead.seq} ({lead.op or 'operation unknown'})" if lead.seq is not None else ""),
        next_step=f"look at the log and the host of {who}: the output of that process, its exit status, dmesg -T",
        explanation="All ranks that the log holds timed out, and the missing numbers lie among theirs. Either that "
        "rank did not come, or its output is not in this log.",
        observed=f"time-outs of {rank_words(lead.waiting)}",
        absence=f"no watchdog line of {who}",
        first_s=lead.first_s,
    )


def _silent(item: Absent, waiting: int) -> Hit:
    lead = item.lead
    limit = f" for {lead.ran_ms / 1000:,.0f} s" if lead.ran_ms else ""
    first = lead.seq is not None and lead.seq <= 1
    prepares = first and len(lead.ranks) == 1
    return Hit(
        title=f"{subject(item)} did not come to collective {lead.seq} ({lead.op or 'operation unknown'}), in which "
        f"{rank_words(lead.waiting)} waited{limit}",
        next_step=f"py-spy dump --pid <pid of rank {lead.ranks[0]}>   # while it hangs; then {READ_LAST}"
        + ("; give init_process_group a timeout longer than that rank prepares" if prepares else ""),
        explanation="The others of this group timed out in the operation, and these did not issue it: they are "
        "somewhere else, or gone."
        + (f" In all {waiting:,} ranks wait, directly or through other groups." if waiting > len(lead.waiting) else "")
        + (
            " It is the first collective: one rank may still be preparing data or loading a checkpoint."
            if first
            else ""
        ),
        observed=f"time-outs of {rank_words(lead.waiting)}",
        absence=f"no watchdog line of {rank_words(lead.ranks)}",
        first_s=lead.first_s,
        last_s=lead.first_s,
    )
