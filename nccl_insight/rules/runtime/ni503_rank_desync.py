"""Ranks of a process group are at different collectives: some never reached what others wait in.

What it finds
-------------
Flight Recorder dumps in which ranks of a group never issued, or never finished, a collective that the others
issued or finished; watchdog lines whose sequence numbers differ between ranks.

Why it matters
--------------
Everybody else waits for the ranks that are behind. The ranks that report the timeout are usually the waiting
ones; the cause is on the ranks named here.

How it decides
--------------
Dumps are matched by process group and sequence number. A rank is *missing* in a collective when others have
issued it and this rank's last one is earlier. A rank is *behind* when it issued a synchronizing collective that
others of the group finished long ago and it did not. Ranks that themselves wait for a missing rank in another
group are not blamed. From watchdog lines the oldest unfinished operation of each rank and the last one it issued
are compared within one process group: a gap of one decides, because all count alike.

What to do
----------
Look at the named ranks first: Python stack (py-spy dump), dmesg for Xid messages, the rank's own log before the
timeout. If they run, compare the code path they took with that of the others.

False positives
---------------
Dumps taken from a running job on request: ranks are then a few operations apart without any fault.

References
----------
PyTorch Flight Recorder tutorial; torch.distributed ProcessGroupNCCL watchdog messages.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.facts.flight_recorder import Lagging, Starved, Verdict, verdict
from nccl_insight.facts.settings import named, rank_words
from nccl_insight.facts.watchdog import DEFAULT, verdicts
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Ref, Severity
from nccl_insight.tables.run import Run
from nccl_insight.units import format_ranks, plural

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.TRIAGE
CONFIDENCE = Confidence.HIGH
NEEDS = ("flight_recorder", "errors")
SOURCES = ("PyTorch Flight Recorder", "torch.distributed watchdog messages")

_NEXT = "py-spy dump --pid <pid of the named rank>; dmesg -T | grep -i xid   # on the hosts of these ranks"


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """At most one finding from the dumps and one a process group from watchdog lines."""
    judged = verdict(run)
    if judged is not None and judged.ranks == 1 and not judged.suspects:
        yield CannotJudge(
            "the Flight Recorder dump of one rank only", "add the dumps of the other ranks of the job"
        )
    elif judged is not None:
        yield from _from_dumps(judged)
    elif run.has("flight_recorder"):
        yield CannotJudge(
            "the Flight Recorder dumps do not say which ranks wrote them",
            "keep the rank number at the end of the file names (_dump_0, trace_rank_0.json)",
        )
    yield from _from_watchdog(run)


def _from_dumps(judged: Verdict) -> Iterator[Hit]:
    if not judged.suspects:
        yield from _undumped(judged)
        yield from _not_entered(judged)
        return
    starved = [s for s in judged.starved if set(s.missing) & set(judged.suspects)]
    parts: list[str] = []
    if judged.lagging:
        worst = max(judged.lagging, key=lambda g: (len(g.behind), -g.operation.created_ns))
        parts.append(_lag_text(worst))
    if starved:
        parts.append(_missing_text(starved[0]))
    facts = [
        *(Ref(s.operation.input_id, 0, _missing_text(s)) for s in starved[:4]),
        *(Ref(g.operation.input_id, 0, _lag_text(g)) for g in judged.lagging[:4]),
    ]
    both: list[Starved | Lagging] = [*starved, *judged.lagging]
    first = min(both, key=lambda s: s.operation.created_ns)
    explanation = (
        f"{plural(judged.stuck_groups, 'process group')} of {plural(judged.ranks, 'dumped rank')} have unfinished "
        f"collectives; the earliest that these ranks explain is number {first.operation.seq:,} "
        f"({first.operation.label}) of group {first.group.label}."
    )
    if judged.undumped:
        explanation += f" No dump of ranks {format_ranks(judged.undumped)}: nothing is known about them."
    yield Hit(
        title=f"Rank{'s' if len(judged.suspects) > 1 else ''} {format_ranks(judged.suspects)} "
        f"{'are' if len(judged.suspects) > 1 else 'is'} behind the others: {'; '.join(parts)}",
        next_step=_NEXT,
        explanation=explanation,
        observed="; ".join(parts),
        expected="all ranks of a group issue and finish the same collectives",
        ranks=judged.suspects,
        confidence=Confidence.HIGH if starved else Confidence.MEDIUM,
        evidence=tuple(facts),
    )


def _not_entered(judged: Verdict) -> Iterator[Hit]:
    """All have issued a collective, but on some GPUs it has not begun: work before it does not end there."""
    for item in judged.not_entered[:1]:
        many = len(item.waiting) > 1
        where = f"collective {item.operation.seq:,} ({item.operation.label}) of group {item.group.label}"
        who = f"Rank{'s' if many else ''} {format_ranks(item.waiting)}"
        yield Hit(
            title=f"{who} issued {where} but never entered it, while ranks {format_ranks(item.started)} wait in it",
            next_step=_NEXT,
            explanation="The CPU of these ranks has issued the collective and their GPU has not started it: an earlier "
            "kernel or collective of theirs does not end, or another process group runs in a different order.",
            observed=f"not started on ranks {format_ranks(item.waiting)}",
            expected="all ranks of a group start the same collective",
            ranks=item.waiting,
            confidence=Confidence.MEDIUM,
            evidence=(
                Ref(item.operation.input_id, 0, f"ranks {format_ranks(item.started)} have started {where}"),
            ),
        )


def _undumped(judged: Verdict) -> Iterator[Hit]:
    """Everyone who gave a dump waits in the same collective: those without a dump are to be looked at."""
    for item in judged.silent[:1]:
        plural_s = "s" if len(item.missing) > 1 else ""
        where = f"collective {item.operation.seq:,} ({item.operation.label}) of group {item.group.label}"
        yield Hit(
            title=f"Rank{plural_s} {format_ranks(item.missing)} did not produce a dump, and ranks "
            f"{format_ranks(item.waiting)} all wait in {where}",
            next_step=_NEXT,
            explanation="A process that ended or that cannot write leaves no dump. If the dumps of these ranks "
            "were only not collected, add them.",
            observed=f"dumps of {plural(judged.ranks, 'rank')}",
            expected="a dump of every rank of the group",
            ranks=item.missing,
            severity=Severity.WARNING,
            confidence=Confidence.LOW,
            evidence=(
                Ref(
                    item.operation.input_id,
                    0,
                    f"ranks {format_ranks(item.waiting)} wait in {item.operation.label}",
                ),
            ),
        )


def _missing_text(item: Starved) -> str:
    last = f" (their last: {item.last_issued:,})" if item.last_issued is not None else ""
    return (
        f"rank{'s' if len(item.missing) > 1 else ''} {format_ranks(item.missing)} never issued collective "
        f"{item.operation.seq:,} ({item.operation.label}) of group {item.group.label}{last}, in which "
        f"rank{'s' if len(item.waiting) > 1 else ''} {format_ranks(item.waiting)} "
        f"wait{'' if len(item.waiting) > 1 else 's'}"
    )


def _lag_text(item: Lagging) -> str:
    return (
        f"collective {item.operation.seq:,} ({item.operation.label}) of group {item.group.label} never finished on "
        f"rank{'s' if len(item.behind) > 1 else ''} {format_ranks(item.behind)}, while "
        f"rank{'s' if len(item.ahead) > 1 else ''} {format_ranks(item.ahead)} finished up to {item.ahead_seq:,}"
    )


def _from_watchdog(run: Run) -> Iterator[Hit]:
    """Ranks whose oldest unfinished operation, or last issued one, is below what the others of the group wait in."""
    missing, _ = verdicts(run)
    for item in missing:
        if item.proof in ("silent", "gap"):
            continue
        who = f"{rank_words(item.ranks)[0].upper()}{rank_words(item.ranks)[1:]}"
        where = f" on {named(item.hosts)}" if item.hosts else ""
        group = "" if item.group in (DEFAULT, "?") else f" of process group {item.group}"
        known = item.group != "?"
        far = item.last is not None and item.seq - item.last > 1
        behind = f"{item.seq - (item.last or 0):,} apart" if far else "one operation behind"
        if item.proof == "enqueued":
            title = (
                f"{who}{where} issued no collective after {item.last:,}{group}; {rank_words(item.waiting)} waited in "
                f"{item.seq:,} ({item.op or 'operation unknown'}) until the time limit"
            )
        else:
            title = (
                f"{who}{where} timed out in collective {item.last:,}{group}, {rank_words(item.waiting)} in "
                f"{item.seq:,}: {behind}"
            )
        note = "" if known else (
            " The lines do not name the process group; if these ranks reported about different groups, the numbers "
            "cannot be compared."
        )  # fmt: skip
        numbers = "" if item.world else " The rank numbers are those within the process group."
        yield Hit(
            title=title,
            next_step=_NEXT,
            explanation="Ranks of one process group number their collectives alike, so the ranks with the lower number "
            f"are behind and the others wait for them.{note}{numbers}",
            observed=f"last of {rank_words(item.ranks)}: {item.last if item.last is not None else 'unknown'}; "
            "the others "
            f"wait in {item.seq:,}",
            expected="the same sequence number on all ranks",
            ranks=item.ranks,
            hosts=item.hosts,
            confidence=Confidence.HIGH if item.sure else Confidence.MEDIUM,
            evidence=item.evidence,
            first_s=item.first_s,
            last_s=item.first_s,
        )
