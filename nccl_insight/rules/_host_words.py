"""How facts of host tools become hits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from nccl_insight.base.model import Action, Confidence, Hit, Ref, Severity
from nccl_insight.facts.host_facts import Fact
from nccl_insight.tables.run import Run

MOST_EVIDENCE = 6


@dataclass(frozen=True)
class Said:
    """A hit for the diagnosis ``name``."""

    name: str
    hit: Hit


@dataclass(frozen=True)
class Beside:
    """A sentence, and its evidence, for a finding of one of ``names`` (the first that the log has)."""

    names: tuple[str, ...]
    sentence: str
    evidence: tuple[Ref, ...]

    def added(self, hit: Hit) -> Hit:
        """The hit with it: behind what it observed, and behind its first evidence."""
        observed = "; ".join(filter(None, (hit.observed.rstrip("."), self.sentence)))
        return replace(hit, observed=observed, evidence=(*hit.evidence[:2], *self.evidence, *hit.evidence[2:]))


Judge: TypeAlias = Callable[[Run], Iterator[Said | Beside]]


def refs(facts: Iterable[Fact], most: int = MOST_EVIDENCE) -> tuple[Ref, ...]:
    """The facts' lines, each once."""
    return tuple(dict.fromkeys(Ref(f.input_id, f.line) for f in facts))[:most]


def hit(
    name: str,
    title: str,
    facts: Sequence[Fact],
    next_step: str,
    severity: Severity,
    *,
    explanation: str = "",
    observed: str = "",
    expected: str = "",
    confidence: Confidence | None = None,
    action: Action | None = None,
    ranks: tuple[int, ...] = (),
) -> Said:
    """A hit that rests on facts."""
    hosts = tuple(sorted({f.host for f in facts if f.host}))
    where = (
        f" on {hosts[0]}"
        if len(hosts) == 1 and hosts[0] not in title
        else f" ({len(hosts)} hosts)"
        if len(hosts) > 1
        else ""
    )
    return Said(
        name,
        Hit(
            title=f"{title}{where}", next_step=next_step, explanation=explanation, observed=observed, expected=expected,
            severity=severity, confidence=confidence, action=action, ranks=ranks, hosts=hosts, evidence=refs(facts),
        ),
    )  # fmt: skip


def listed(items: Iterable[str], most: int = 4) -> str:
    """``a, b and 3 more``, each once."""
    every = list(dict.fromkeys(items))
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")
