"""Who did not come: the ranks that others wait for, from everything in the inputs that tells how far ranks got.

The lines of torch's watchdog, Flight Recorder dumps, call logs, NCCL's RAS reports and Inspector's records each tell
the last operation of ranks, in their own numbers (:mod:`~nccl_insight.facts.progress.standings`), and make claims
about ranks (:mod:`~nccl_insight.facts.progress.claims`). :func:`absences` puts claims about the same ranks together,
and says where sources contradict each other. Numbers of one process group count alike on all its ranks, so the oldest
unfinished operation decides and a gap of one is enough.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Confidence
from nccl_insight.base.words import words
from nccl_insight.facts.progress import flight_recorder
from nccl_insight.facts.progress.claims import CALLS, DUMPS, LOG, SOURCES, UNSEEN, WATCHDOG, Claim
from nccl_insight.facts.progress.waitfor import verdict, waiting
from nccl_insight.facts.progress.watchdog import odd_calls
from nccl_insight.facts.progress.witnesses import witnesses
from nccl_insight.tables.run import Run, fact

# Proofs that are enough for a finding; the others only support one.
_LEADS: Final = frozenset(
    words("""not-issued enqueued barrier stack calls behind lagging counts-still silent
    not-entered undumped gap""")
)
_DISSENT: Final = 5


@dataclass(frozen=True)
class Absent:
    """Ranks that did not come, by the best claim about them, and what else speaks for or against it.

    ``support`` are claims of the same ranks from other sources, ``against`` claims that name others, ``also`` claims
    of the same source that other groups wait for the same ranks.
    """

    lead: Claim
    confidence: Confidence
    support: tuple[Claim, ...] = ()
    against: tuple[Claim, ...] = ()
    also: tuple[Claim, ...] = ()

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All that speaks for it, best first."""
        return (self.lead, *self.support)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of the ranks, from whichever source knows them."""
        return next((c.hosts for c in self.claims if c.hosts), ())


@fact
def absences(run: Run) -> tuple[Absent, ...]:
    """The ranks that explain why others wait, best proof first."""
    return tuple(_merged([c for c in _claims(run) if not _came(run, c)]))


@fact
def refuted(run: Run) -> tuple[Claim, ...]:
    """Claims about ranks of which complete dumps show that they came: all ranks are in the same operation."""
    return tuple(c for c in _claims(run) if _came(run, c))


def tells(run: Run, source: str, ranks: Iterable[int]) -> bool:
    """Whether what a source says of these ranks is part of an absence, so that it needs no finding of its own."""
    wanted = set(ranks)
    return bool(wanted) and any(c.source == source and wanted <= set(c.ranks) for a in absences(run) for c in a.claims)


def held_up(run: Run, ranks: Iterable[int]) -> bool:
    """Whether something tells why these ranks do not come: others that are late, or called something else."""
    judged = [verdict(run, source) for source in SOURCES]
    if absences(run) or flight_recorder.mismatches(run) or odd_calls(run) or any(v.crossed for v in judged):
        return True
    late = {r for v in judged for c in v.claims for r in c.ranks}
    told = bool(late) or any(v.stalled for v in judged)
    return told and (late | waiting(run)).issuperset(ranks)


def _merged(claims: Sequence[Claim]) -> Iterator[Absent]:
    placed = any(c.world and c.proof in _LEADS for c in claims)
    ordered = sorted(claims, key=lambda c: (c.proof not in _LEADS, -c.weight, c.confidence.order))
    found: list[dict[str, list[Claim]]] = []
    for claim in ordered:
        related = ((own, _relation(own["same"][0], claim)) for own in found)
        kinds = {kind: own for own, kind in reversed(list(related))}
        kind = next((k for k in ("same", "also", "against") if k in kinds), None)
        if kind is not None:
            kinds[kind].setdefault(kind, []).append(claim)
        # Numbers in a group mean no rank of the job; they only repeat what others say by those.
        elif claim.proof in _LEADS and (claim.world or not placed):
            found.append({"same": [claim]})
    for own in found:
        lead, *others = own["same"]
        support = _one_a_source(lead, others)
        contrary = tuple(c for c in own.get("against", ()) if c.weight >= _DISSENT)
        unseen = lead.confidence is Confidence.LOW and all(c.proof in UNSEEN for c in own["same"])
        step = int(bool(support) and not unseen) - bool(contrary)
        sure = tuple(Confidence)[max(0, min(2, lead.confidence.order - step))]
        yield Absent(lead, sure, support, contrary, tuple(own.get("also", ())))


def _one_a_source(lead: Claim, others: Sequence[Claim]) -> tuple[Claim, ...]:
    best: dict[str, Claim] = {}
    for claim in others:
        # The call log and the watchdog print into the same log: that a rank is silent there says nothing new.
        if claim.source != lead.source and not (claim.source == LOG and lead.source in (CALLS, WATCHDOG)):
            best.setdefault(claim.source, claim)
    return tuple(best.values())


def _relation(one: Claim, other: Claim) -> str | None:
    """How a claim relates to a better one: it means the ``same`` ranks (the fewer are among the more), says ``also`` of
    another group that it waits for them, which is one event, or names others for the same wait (``against``)."""
    if not (one.world and other.world):
        return None
    a, b = set(one.ranks), set(other.ranks)
    if one.source == other.source and one.group != other.group:
        return "also" if a == b else None
    if a and b and (a <= b or b <= a):
        return "same"
    return "against" if one.source != other.source and not a & b else None


def _came(run: Run, claim: Claim) -> bool:
    judged, dumped = verdict(run, DUMPS), flight_recorder.dumped(run)
    if judged.claims or claim.source == DUMPS or not set(claim.ranks) <= dumped:
        return False
    # Who printed nothing, and waits by its own dump, is not late either.
    waits = claim.proof in UNSEEN and judged.waiting.issuperset(claim.ranks)
    return claim.world and (
        waits
        or any(
            s.whole and set(claim.ranks) <= set(s.ranks) and (claim.seq is None or claim.seq <= s.seq)
            for s in judged.stalled
        )
    )


@fact
def _claims(run: Run) -> tuple[Claim, ...]:
    """The claims of all sources."""
    return (*(claim for source in SOURCES for claim in verdict(run, source).claims), *witnesses(run))
