"""How facts of host tools become hits."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from nccl_insight.base.data import dataclass, replace
from nccl_insight.base.model import Hit, Ref
from nccl_insight.facts.said.host_facts import Fact
from nccl_insight.rules.context import hit, worded
from nccl_insight.tables.run import Run

MOST_EVIDENCE = 6


@dataclass(frozen=True)
class Said:
    """A hit for the diagnosis ``name``."""

    name: str
    hit: Hit


@dataclass(frozen=True)
class Beside:
    """A sentence, and its evidence, for a finding whose page says that it ``shows`` this (the gravest of the log)."""

    shows: str
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


def tools(name: str, facts: Sequence[Fact], /, *, of: str = "", **given: Any) -> Said:
    """A hit of ``name.key``, or of the diagnosis ``of``, that rests on facts, with their hosts in its title."""
    fields = worded(name, given)
    title = fields.pop("title")
    hosts = tuple(sorted({f.host for f in facts if f.host}))
    where = ""
    if len(hosts) > 1 or (hosts and hosts[0] not in title):
        where = f" on {hosts[0]}" if len(hosts) == 1 else f" ({len(hosts)} hosts)"
    return Said(of or name.partition(".")[0], hit(refs(facts), f"{title}{where}", hosts, **fields))
