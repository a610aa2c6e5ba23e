"""What host tools say, as findings: by itself, and as evidence for what the log says.

``told`` gives the hits by the name of their diagnosis; the engine joins them with those of the check of that name. A
hit stands where a fact alone is a fault. ``beside`` gives sentences for findings that the log makes: where a stack
stands, who holds the memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from nccl_insight.base.grouping import grouped
from nccl_insight.base.model import Hit, Severity
from nccl_insight.rules._host_words import Beside, Said
from nccl_insight.tables.run import Run, fact

_LOUD: Final = (Severity.ERROR, Severity.WARNING)


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
