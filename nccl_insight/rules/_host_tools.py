"""What host tools say, as findings: by itself, and as evidence for what the log says.

``told`` gives the hits by the name of their diagnosis; the engine joins them with those of the check of that name. A
hit stands where a fact alone is a fault. ``beside`` gives sentences for findings that the log makes: where a stack
stands, who holds the memory.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from nccl_insight.base.data import dataclass, replace
from nccl_insight.base.grouping import grouped
from nccl_insight.base.model import Hit, Ref, Severity
from nccl_insight.facts.said.host_facts import Fact
from nccl_insight.rules.context import hit, worded
from nccl_insight.tables.run import Run, fact

_LOUD: Final = (Severity.ERROR, Severity.WARNING)

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


def told(run: Run) -> Mapping[str, Sequence[Hit]]:
    """Hits that rest on host tools alone, by the name of their diagnosis."""
    return _told(run)[0]


def beside(run: Run) -> Sequence[Beside]:
    """Sentences for findings of the log."""
    return _told(run)[1]


@fact
def _told(run: Run) -> tuple[Mapping[str, Sequence[Hit]], Sequence[Beside]]:
    if not run.has("host_tools") and not run.has("stacks"):  # most runs have none, and need no code for them
        return {}, ()
    from nccl_insight.rules import _host_devices, _host_job, _host_network

    judges = (*_host_devices.JUDGES, *_host_network.JUDGES, *_host_job.JUDGES)
    every = [said for judge in judges for said in judge(run)]
    hits = grouped((said.name, said.hit) for said in every if isinstance(said, Said))
    return hits, tuple(said for said in every if isinstance(said, Beside))


def joined(run: Run, name: str, own: Sequence[Hit]) -> Sequence[Hit]:
    """The hits of a check with what host tools say of its diagnosis.

    The log's finding leads and takes the tools' lines as further evidence; where it is but a note and the tools see a
    fault, theirs leads.
    """
    tools = told(run).get(name, ())
    if not tools:
        return own
    if not own:
        return tools
    first, *rest = own
    lead = tools[0]
    if lead.severity in _LOUD and first.severity is Severity.INFO:
        merged = replace(
            lead, evidence=(*lead.evidence, *first.evidence), ranks=first.ranks, hosts=first.hosts or lead.hosts
        )
    else:
        said = "; ".join(hit.title for hit in tools)
        evidence = (*first.evidence[:3], *(ref for hit in tools for ref in hit.evidence[:3]), *first.evidence[3:])
        merged = replace(first, observed="; ".join(filter(None, (first.observed, said))), evidence=evidence)
    return (merged, *rest)
