"""How facts of host tools become hits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from nccl_insight.base.model import Hit, Ref, Severity
from nccl_insight.facts.host_facts import Fact
from nccl_insight.rules.context import hit
from nccl_insight.tables.run import Run

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from nccl_insight.rules.context import Fields

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


def by_facts(
    name: str, title: str, facts: Sequence[Fact], step: str, level: Severity,
    *, ranks: tuple[int, ...] = (), **fields: Unpack[Fields],
) -> Said:  # fmt: skip
    """A hit that rests on facts, with the hosts that they are of in its title."""
    hosts = tuple(sorted({f.host for f in facts if f.host}))
    where = ""
    if len(hosts) > 1 or (hosts and hosts[0] not in title):
        where = f" on {hosts[0]}" if len(hosts) == 1 else f" ({len(hosts)} hosts)"
    fields |= {"next_step": step, "severity": level}
    return Said(name, hit(refs(facts), f"{title}{where}", (*ranks, *hosts), **fields))


def listed(items: Iterable[str], most: int = 4) -> str:
    """``a, b and 3 more``, each once."""
    every = list(dict.fromkeys(items))
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")
