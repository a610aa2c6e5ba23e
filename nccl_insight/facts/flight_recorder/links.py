"""Which came first: ranks behind in collectives, or transfers without a partner."""

from __future__ import annotations

from nccl_insight.facts.flight_recorder import Verdict, verdict
from nccl_insight.facts.flight_recorder.pairs import unpaired
from nccl_insight.tables.run import Run


def held(judged: Verdict) -> frozenset[int]:
    """Ranks that the suspects hold up: they wait in a collective for a suspect, or for a rank that waits for one."""
    reached = set(judged.suspects)
    found: set[int] = set()
    while more := {r for s in judged.starved if reached & {*s.missing} for r in s.waiting} - found:
        found |= more
        reached |= more
    return frozenset(found - set(judged.suspects))


def pairs_follow(run: Run) -> bool:
    """Whether the transfers without a partner follow from the ranks that are behind in collectives.

    Each partner that never came waits for such a rank, or is one, and no rank that is behind waits in a transfer.
    """
    judged, pairs = verdict(run), unpaired(run)
    if judged is None or not pairs or not judged.suspects:
        return False
    stopped = held(judged) | set(judged.suspects)
    waits = {p.waits for p in pairs}
    return all(p.missing in stopped for p in pairs) and not waits & set(judged.suspects)


def pairs_explain(run: Run) -> bool:
    """Whether each rank that is behind waits in a transfer for a partner that none of them holds up."""
    judged, pairs = verdict(run), unpaired(run)
    if judged is None or not judged.suspects:
        return False
    stopped = held(judged) | set(judged.suspects)
    free = {p.waits for p in pairs if p.missing not in stopped}
    return set(judged.suspects) <= free
