"""Ranks of a process group are at different collectives: some never reached what others wait in."""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.base.model import CannotJudge, Hit, Ref
from nccl_insight.base.units import format_ranks, plural, rank_words
from nccl_insight.facts.absent import Absent, absences
from nccl_insight.facts.claims import DUMPS, RAS
from nccl_insight.facts.flight_recorder import Verdict, verdict
from nccl_insight.facts.flight_recorder.links import pairs_explain
from nccl_insight.facts.flight_recorder.waits import Lagging, Starved
from nccl_insight.facts.identity import identities
from nccl_insight.facts.watchdog import DEFAULT
from nccl_insight.rules._absent import subject, with_others
from nccl_insight.rules._subjects import ranks_on
from nccl_insight.rules.context import Context, hit
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Iterator[Hit | CannotJudge]:
    """One finding for each set of ranks that others wait for, whatever sources name it."""
    run = ctx.run
    judged = verdict(run)
    if judged is not None and judged.ranks == 1 and not judged.suspects:
        yield CannotJudge("the Flight Recorder dump of one rank only", "add the dumps of the other ranks of the job")
    elif judged is None and run.has("flight_recorder"):
        yield CannotJudge(
            "the Flight Recorder dumps do not say which ranks wrote them",
            "keep the rank number at the end of the file names (_dump_0, trace_rank_0.json)",
        )
    for item in absences(run):
        if item.lead.source == DUMPS and judged is not None:
            yield with_others(_from_dumps(run, item, judged), item)
        elif item.lead.source == RAS:
            yield with_others(_from_ras(item), item)
        elif item.lead.proof in ("enqueued", "behind"):
            yield with_others(_from_watchdog(item), item)
    yield from _from_report(ctx)


def _from_report(ctx: Context) -> Iterator[Hit]:
    """What torch's own desync report says; its ranks are those of the process group, which most jobs have one of."""
    said = ctx.lines()
    if said is None:
        return
    lists = said.rows["rank_list"].drop_nulls().str.extract_all("[0-9]+").explode().drop_nulls()
    ranks = tuple(sorted({int(rank) for rank in lists}))
    if not ranks or any(set(ranks) <= set(item.lead.ranks) for item in absences(ctx.run)):
        return
    seq = said.value("desync_seq")
    where = f" collective {seq}" if seq else " any collective"
    hosts = identities(ctx.run).hosts(ranks)
    yield ctx.hit(
        said.evidence,
        whom=(*ranks, *hosts),
        title=f"{ranks_on(ranks, hosts)} did not join{where}, as torch's desync report says",
        explanation="On a time-out each rank looks up in the store how far all ranks came. Those that are named are "
        "furthest behind: they are somewhere else in the program, stuck, or gone.",
        observed=said.text,
        first_s=said.first_s,
        last_s=said.last_s,
    )


def _from_dumps(run: Run, item: Absent, judged: Verdict) -> Hit:
    if item.lead.proof == "undumped":
        return _undumped(item, judged)
    if item.lead.proof == "not-entered":
        return _not_entered(item, judged)
    starved = [s for s in judged.starved if set(s.missing) & set(judged.suspects)]
    parts = [_missing_text(starved[0])] if starved else []
    if judged.lagging:
        worst = max(judged.lagging, key=lambda g: (len(g.behind), -g.operation.created_ns))
        parts.append(_lag_text(worst))
    facts = [
        *(Ref(s.operation.input_id, 0, _missing_text(s)) for s in starved[:4]),
        *(Ref(g.operation.input_id, 0, _lag_text(g)) for g in judged.lagging[:4]),
    ]
    both: list[Starved | Lagging] = [*starved, *judged.lagging]
    first = min(both, key=lambda s: s.operation.created_ns)
    explanation = (
        f"{plural(judged.stuck_groups, 'process group')} of {plural(judged.ranks, 'dumped rank')} have unfinished "
        f"collectives; the earliest that these ranks explain is number {first.operation.seq} "
        f"({first.operation.label}) of group {first.group.label}."
    )
    if judged.undumped:
        explanation += f" No dump of ranks {format_ranks(judged.undumped)}: nothing is known about them."
    if pairs_explain(run):
        explanation += " Each of them waits in a send or receive whose partner never came."
    return hit(
        tuple(facts),
        title=f"{subject(item)} {'are' if len(judged.suspects) > 1 else 'is'} behind the others: {parts[0]}",
        explanation=explanation,
        observed="; ".join(parts),
        caused_by=("send-recv-unmatched",) if pairs_explain(run) else (),
    )


def _not_entered(item: Absent, judged: Verdict) -> Hit:
    """All have issued a collective, but on some GPUs it has not begun: work before it does not end there."""
    stuck = judged.not_entered[0]
    where = f"{stuck.operation.name} of group {stuck.group.label}"
    return Hit(
        title=f"{subject(item)} issued {where} but never entered it, while ranks "
        f"{format_ranks(stuck.started)} wait in it",
        explanation="The CPU of these ranks has issued the collective and their GPU has not started it: an earlier "
        "kernel or collective of theirs does not end, or another process group runs in a different order.",
        observed=f"not started on ranks {format_ranks(stuck.waiting)}",
    )


def _undumped(item: Absent, judged: Verdict) -> Hit:
    """Everyone who gave a dump waits in the same collective: those without a dump are to be looked at."""
    silent = judged.silent[0]
    where = f"{silent.operation.name} of group {silent.group.label}"
    return Hit(
        title=f"{subject(item)} did not produce a dump, and ranks {format_ranks(silent.waiting)} all wait in {where}",
        explanation="A process that ended or that cannot write leaves no dump. If the dumps of these ranks "
        "were only not collected, add them.",
        observed=f"dumps of {plural(judged.ranks, 'rank')}",
    )


def _from_ras(item: Absent) -> Hit:
    """RAS counts fewer operations of some ranks, and the job stands."""
    lead = item.lead
    op = f"{lead.op} operations" if lead.op else "operations"
    return Hit(
        title=f"{subject(item)} launched {lead.last or 0:,} {op}, the others {lead.seq or 0:,}: "
        f"{'they are' if len(lead.ranks) > 1 else 'it is'} what the others wait for",
        explanation="RAS counts the operations that each rank has launched. In a running job the counts differ and "
        "move; here the job stands.",
        observed=f"{lead.last or 0:,} {op}",
        expected=f"{lead.seq or 0:,}",
        comm_id=f"0x{lead.comm_id.lstrip('0')}" if lead.comm_id else None,
    )


def _missing_text(item: Starved) -> str:
    whose = "their" if len(item.missing) > 1 else "its"
    last = f" ({whose} last: {item.last_issued})" if item.last_issued is not None else ""
    return (
        f"{rank_words(item.missing)} never issued {item.operation.name} of group {item.group.label}{last}, in which "
        f"{rank_words(item.waiting)} "
        f"wait{'' if len(item.waiting) > 1 else 's'}"
    )


def _lag_text(item: Lagging) -> str:
    return (
        f"{item.operation.name} of group {item.group.label} never finished on "
        f"{rank_words(item.behind)}, while {rank_words(item.ahead)} finished up to {item.ahead_seq}"
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
            f"{subject(item)} issued no collective after {last}{group}; {rank_words(lead.waiting)} waited in "
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
    return Hit(
        title=title,
        explanation="Ranks of one process group number their collectives alike, so the ranks with the lower number "
        f"are behind and the others wait for them.{note}{numbers}",
        observed=f"last of {rank_words(lead.ranks)}: {last if last is not None else 'unknown'}; the others wait in "
        f"{seq}",
        expected="the same sequence number on all ranks",
        first_s=lead.first_s,
        last_s=lead.first_s,
    )
