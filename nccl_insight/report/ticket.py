"""What people paste: the issue form of NVIDIA/nccl filled in, and five lines for a chat."""

from typing import Final

from nccl_insight.base.model import Analysis
from nccl_insight.base.natures import names
from nccl_insight.base.units import plural
from nccl_insight.report import markdown, words
from nccl_insight.report.fill import text
from nccl_insight.report.sanitize import one_line
from nccl_insight.views.platform import Platform

_MOST_FINDINGS: Final = 6
_HANGS: Final = ("timeout", "hang", "desync", "stuck", "missing", "silent", "not-reached", "never", "unmatched")


def github_issue(analysis: Analysis, view: Platform) -> str:
    """The fields of NVIDIA/nccl's issue form (``.github/ISSUE_TEMPLATE/ISSUE.yaml``) as markdown.

    Always below 60,000 characters. Fields that the inputs do not tell hold an italic request, so that nothing made up
    is sent.
    """
    filled = markdown.fill(
        "issue.md",
        analysis=analysis,
        impact=_impact(analysis),
        logs=_logs(analysis),
        version=_version(analysis),
        facts=_facts(analysis, view),
        settings=_settings(view),
    )
    return markdown.bounded(filled, "it does not fit into an issue; attach the HTML or JSON report")


def platform(analysis: Analysis, view: Platform, command: str = "") -> str:
    """Markdown on version, GPUs, topology, network, settings and command, for :func:`markdown.render`."""
    facts, version = _facts(analysis, view), _version(analysis)
    return markdown.fill("platform.md", version=version, facts=facts, settings=_settings(view), command=command)


def chat(analysis: Analysis) -> str:
    """At most eleven lines without markup for a chat: verdict and cause, the job, its story, a line, what to do."""
    filled = text("chat.txt", analysis=analysis)
    return "\n".join(one_line(line, 500) for line in filled.rstrip().split("\n")) + "\n"


def _impact(analysis: Analysis) -> str:
    """The option of the form that fits best; a request where none does."""
    loud = analysis.causes
    if not loud:
        return "_Please choose: lower performance than expected, application crash, data corruption, application hang._"
    first = loud[0]
    if first.name in names("corruption"):
        return "Data corruption"
    if first.finding_class.value == "P":
        return "Lower performance than expected"
    if any(word in first.name for word in _HANGS):
        return "Application hang"
    return "Application crash"


def _logs(analysis: Analysis) -> list[tuple[str, list[str]]]:
    """Titles of the first causes, and lines of the logs that show them."""
    shown = [
        (one_line(i.title, 300), [words.quoted(e) for e in i.evidence[:8] if e.text])
        for i in analysis.causes[:_MOST_FINDINGS]
    ]
    return [(title, lines) for title, lines in shown if lines]


def _settings(view: Platform) -> list[str]:
    """What the user set."""
    return sorted({f"{one_line(name, 120)}={one_line(value, 200)}" for name, value in view.settings})


def _version(analysis: Analysis) -> str:
    """The version of NCCL with that of CUDA; empty where the inputs do not tell it."""
    job = analysis.job
    cuda = f"+cuda{one_line(job.cuda_versions[0], 20)}" if len(job.cuda_versions) == 1 else ""
    versions = " and ".join(one_line(v, 60) for v in job.nccl_versions)
    return versions + ("" if not versions or "cuda" in versions else cuda)


def _facts(analysis: Analysis, view: Platform) -> list[tuple[str, str]]:
    """What is known of the machine, by name; empty what is not."""
    job = analysis.job
    networks, cuda, drivers = (
        ", ".join(one_line(v, 40) for v in told) for told in (job.networks, job.cuda_versions, job.driver_versions)
    )
    return [
        ("Ranks and nodes", words.job_line(analysis).split(", NCCL")[0]),
        ("GPUs", " ".join(filter(None, (plural(job.gpus, "GPU") if job.gpus else "", view.gpu)))),
        ("Network", ", ".join(filter(None, (networks, _nics(view))))),
        ("CUDA", cuda),
        ("Driver", drivers),
        *(("Topology", one_line(line, 300)) for line in analysis.summary[:3]),
    ]


def _nics(view: Platform) -> str:
    known = view.nics
    if known is None:
        return ""
    speed = f" of {' and '.join(map(str, known.speeds_gbit))} Gb/s" if known.speeds_gbit else ""
    names = ", ".join(one_line(n, 40) for n in known.names)
    return f"{plural(known.per_host, 'NIC')} per node{speed} ({names})"
