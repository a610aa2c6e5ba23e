"""Phrases that several renderers share: the verdict in words, where a finding is, what was not judged."""

import re
from collections import defaultdict
from collections.abc import Iterable
from itertools import takewhile

from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Analysis, Evidence, Finding, JobPart, NotJudged, Severity, Step
from nccl_insight.base.units import listed, plural, rank_words
from nccl_insight.report.sanitize import one_line

EXCERPT = 400
_TEXT = ("nccl_log", "unknown")
_NUMBER = re.compile(r"(?:[<>=~]+ *|at (?:least|most) |about )?[-+]?[0-9][0-9.,]*")


def cause(analysis: Analysis) -> str:
    """The cause in words: the headline of every output."""
    if analysis.headline:
        return one_line(analysis.headline, 500)
    if analysis.loud:
        return one_line(analysis.loud[0].title, 500)
    return {"ok": "No problem found", "inconclusive": "No cause found"}.get(analysis.status, "Nothing to judge")


def common_folder(paths: Iterable[str]) -> str:
    """The folder that two or more different paths share, with its slash; empty where it would save nothing."""
    several = sorted({path for path in paths if path})
    if len(several) < 2:
        return ""
    # Of sorted paths, what the first and the last share is shared by all of them.
    pairs = zip(several[0].split("/")[:-1], several[-1].split("/")[:-1], strict=False)
    folder = "/".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return f"{folder}/" if folder else ""


def verdict_counts(analysis: Analysis) -> str:
    """``2 errors, 1 warning``; ``no findings`` when there is none."""
    names = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
    counted = ((analysis.count(severity), name) for severity, name in names.items())
    return ", ".join(plural(count, name) for count, name in counted if count) or "no findings"


def job_line(analysis: Analysis) -> str:
    """``64 ranks on 8 nodes, NCCL 2.27.3``; empty when nothing is known."""
    return one_line(analysis.job.line, 200)


def coverage_line(analysis: Analysis) -> str:
    """``1,203,114 lines (96.8% understood)``, with foreign lines ``(96.8% of 980,020 NCCL lines understood)``.

    Empty for runs without log lines, such as traces, whatever text lies beside them.
    """
    coverage = analysis.coverage
    if not coverage.lines:
        return ""
    if not coverage.nccl_lines and analysis.inputs and not all(i.kind in _TEXT for i in analysis.inputs):
        return ""
    if not coverage.nccl_lines:
        return f"{plural(coverage.lines, 'line')} (none from NCCL)"
    of = f" of {plural(coverage.nccl_lines, 'NCCL line')}" if coverage.foreign else ""
    return f"{plural(coverage.lines, 'line')} ({percent(coverage.understood)}{of} understood)"


def facts_line(analysis: Analysis) -> str:
    """The job, and how much of its lines was understood, as :func:`job_line` and :func:`coverage_line` have it."""
    return ", ".join(filter(None, (job_line(analysis), coverage_line(analysis))))


def counted_facts(analysis: Analysis) -> str:
    """The same behind the number of findings, where there is one."""
    counts = verdict_counts(analysis) if analysis.findings else ""
    return ", ".join(filter(None, (counts, facts_line(analysis))))


def percent(share: float) -> str:
    """``0.968`` -> ``96.8%``. Never rounds up to 100% or down to 0%."""
    shown = f"{share * 100:.1f}"
    if shown == "100.0" and share < 1:
        shown = "99.9"
    if shown == "0.0" and share > 0:
        shown = "<0.1"
    return f"{shown.removesuffix('.0') if shown in ('100.0', '0.0') else shown}%"


def primary(finding: Finding) -> Evidence | None:
    """The evidence marked primary, or the first one."""
    return next((e for e in finding.evidence if e.primary), finding.evidence[0] if finding.evidence else None)


def location(evidence: Evidence) -> str:
    """``run.log:1234``; the input alone when the evidence is an absence."""
    path = one_line(evidence.input, 300)
    return f"{path}:{evidence.line}" if evidence.line else path


def quoted(evidence: Evidence) -> str:
    """Where a piece of evidence stands, and what it says: ``run.log:1234: text``."""
    return f"{location(evidence)}: {one_line(evidence.text, 1000)}"


def steps(finding: Finding) -> tuple[Step, ...]:
    """What to do about it, made safe to show."""
    return tuple(Step(s.label, one_line(s.text, 1000), one_line(s.where, 500)) for s in finding.steps)


def affected(finding: Finding, limit: int = 12) -> str:
    """``ranks 0-7,12 on gpu01, gpu02``; empty when the finding names neither."""
    parts = []
    if finding.ranks:
        parts.append(rank_words(finding.ranks, limit))
    if finding.hosts:
        parts.append(host_list(finding.hosts))
    return " on ".join(parts)


def host_list(hosts: tuple[str, ...], limit: int = 4) -> str:
    """The first host names, and how many more there are."""
    return listed((one_line(h, 80) for h in hosts), limit)


def driver(version: str) -> str:
    """A driver's number for people: NCCL prints the CUDA version that it supports, ``12040`` for 12.4."""
    if re.fullmatch("[0-9]{4,5}", version):
        number = int(version)
        return f"{version} (CUDA {number // 1000}.{number % 1000 // 10})"
    return version


def observed_expected(finding: Finding) -> tuple[str, str]:
    """Both values with the unit behind a bare number, never behind a phrase; no observed text that is the evidence."""
    unit = one_line(finding.unit, 40) if finding.unit else ""
    observed, expected = (
        f"{text} {unit}" if unit and _NUMBER.fullmatch(text) else text
        for text in (one_line(finding.observed, 400), one_line(finding.expected, 400))
    )
    said = one_line(finding.evidence[0].text, 2000) if finding.evidence else ""
    return ("" if observed.rstrip(".") in said else observed), expected


def compared(finding: Finding) -> str:
    """``observed 2.1 GB/s, expected >= 180 GB/s``; empty when there is neither."""
    observed, expected = observed_expected(finding)
    named = (("observed", observed), ("expected", expected))
    return ", ".join(f"{word} {value}" for word, value in named if value)


def job_part(part: JobPart) -> str:
    """``2 ranks, NCCL 2.21.5 (b.log)``, and how far it got."""
    size = plural(part.nranks, "rank") if part.nranks is not None else "unknown size"
    version = f", NCCL {' and '.join(part.nccl_versions)}" if part.nccl_versions else ""
    files = listed((one_line(name, 120) for name in part.inputs), 3)
    reached = f": {part.reached}" if part.reached else ""
    return f"{part.label}: {size}{version} ({files}){reached}"


def crossed(low: int, high: int, least: int, places: str) -> str:
    """``twice, the minimum for 2 nodes``: how often rings cross between places, and how often they must."""
    times = f"{low} to {high} times" if low != high else {1: "once", 2: "twice"}.get(low, f"{low} times")
    enough = f"the minimum for {least} {places}" if high <= least else f"at least {least} are needed"
    return f"{times}, {enough}"


def shortened(text: str, limit: int) -> str:
    """The text, cut between two words with an ellipsis where it is longer than ``limit`` characters."""
    if len(text) <= limit:
        return text
    head = text[:limit]
    return (head.rpartition(" ")[0] or head).rstrip(" ,;:(") + " …"


def code_parts(text: str) -> list[tuple[bool, str]]:
    """The text in pieces, ``(is_code, piece)``: what stands between two backticks is code."""
    pieces = one_line(text, 2000).split("`")
    if len(pieces) % 2 == 0:
        pieces[-2:] = ["`".join(pieces[-2:])]
    return [(bool(n % 2), piece) for n, piece in enumerate(pieces) if piece]


@dataclass(frozen=True)
class NotJudgedGroup:
    """Diagnoses that were not judged for one reason."""

    reason: str
    how_to_enable: str
    names: tuple[str, ...]


def without_a_log(analysis: Analysis) -> str:
    """That most checks need a log, in place of all reasons where the inputs hold no line of NCCL; else empty."""
    if analysis.coverage.nccl_lines or not analysis.not_judged:
        return ""
    names = len({item.name for item in analysis.not_judged})
    return f"Most checks need a log of NCCL (NCCL_DEBUG=INFO): {plural(names, 'check')} could not run."


def not_judged_groups(items: tuple[NotJudged, ...]) -> list[NotJudgedGroup]:
    """Diagnoses by reason, the most common reason first."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for item in items:
        key = (one_line(item.reason, 300), one_line(item.how_to_enable, 300))
        groups[key].append(one_line(item.name, 80))
    ordered = sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    return [NotJudgedGroup(reason, how, tuple(sorted(set(names)))) for (reason, how), names in ordered]
