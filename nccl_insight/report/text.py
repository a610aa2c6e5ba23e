"""The terminal's view of an analysis: a verdict line, a few lines per finding, what was not judged."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from nccl_insight.model import Analysis, Finding, Role, Severity
from nccl_insight.report import words
from nccl_insight.report.sanitize import one_line
from nccl_insight.units import plural

_STYLE = {
    "FAIL": "1;31",
    "ERROR": "1;31",
    "WARN": "1;33",
    "WARNING": "1;33",
    "OK": "1;32",
    "NOT JUDGED": "1;35",
}
_LABEL = 7
_GROUPS_SHOWN = 3


def render(analysis: Analysis, *, color: bool = False, verbosity: int = 0, width: int | None = None) -> str:
    """The analysis for people, ending with a newline.

    Args:
        analysis: what to show.
        color: whether to use ANSI colours; severity is always a word first.
        verbosity: -2 nothing, -1 the verdict line, 0 normal, 1 and more all evidence and explanations.
        width: wrap at this column; None never wraps, so that piped output does not depend on a terminal.
    """
    if verbosity <= -2:
        return ""
    lines = [_verdict(analysis, color)]
    if verbosity > -1:
        loud = [f for f in analysis.findings if f.severity is not Severity.INFO or verbosity > 0]
        quiet = [f for f in analysis.findings if f not in loud]
        for finding in loud:
            lines += ["", *_finding(finding, color, verbosity, width)]
        if quiet:
            lines += ["", *(_note(f, width) for f in quiet)]
        footer = list(_footer(analysis, verbosity, width))
        lines += ["", *footer] if footer else []
    return "\n".join(lines) + "\n"


def _paint(word: str, color: bool) -> str:
    code = _STYLE.get(word)
    return f"\x1b[{code}m{word}\x1b[0m" if color and code else word


def _verdict(analysis: Analysis, color: bool) -> str:
    facts = ", ".join(filter(None, (words.job_line(analysis), words.coverage_line(analysis))))
    parts = [_paint(words.verdict_word(analysis), color), words.verdict_counts(analysis), facts]
    return "  ".join(filter(None, parts))


def _wrapped(label: str, text: str, width: int | None) -> list[str]:
    first = "  " + label.ljust(_LABEL)
    if width is None:
        return [first + text]
    return textwrap.wrap(
        text, max(width, 40), initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False
    ) or [first]


def _finding(finding: Finding, color: bool, verbosity: int, width: int | None) -> Iterator[str]:
    severity = _paint(finding.severity.value.upper(), color)
    yield f"{severity}  {finding.code} {finding.name}: {one_line(finding.title, 500)}"
    evidence = words.primary(finding)
    where = [words.location(evidence)] if evidence else []
    where += filter(None, [words.affected(finding)])
    if where:
        yield from _wrapped("where", "; ".join(where), width)
    why = words.compared(finding) or (one_line(evidence.text, words.EXCERPT) if evidence else "")
    if finding.role is Role.CASCADE and finding.caused_by:
        why = "; ".join(filter(None, [why, f"follows from {one_line(finding.caused_by, 80)}"]))
    if finding.confidence.value != "high":
        why = "; ".join(filter(None, [why, f"{finding.confidence.value} confidence"]))
    if why:
        yield from _wrapped("why", why, width)
    if finding.next_step:
        yield from _wrapped("do", one_line(finding.next_step, 1000), width)
    if verbosity > 0:
        if finding.explanation:
            yield from _wrapped("about", one_line(finding.explanation, 2000), width)
        for item in finding.evidence:
            yield from _wrapped("log", f"{words.location(item)}: {one_line(item.text, words.EXCERPT)}", None)
        for source in finding.sources:
            yield from _wrapped("source", one_line(source, 300), None)
    yield from _wrapped("more", f"nccl-insight explain {finding.code}", None)


def _note(finding: Finding, width: int | None) -> str:
    text = f"note   {finding.code} {finding.name}: {one_line(finding.title, 300)}"
    evidence = words.primary(finding)
    if evidence and evidence.line:
        text += f" ({words.location(evidence)})"
    return "\n".join(textwrap.wrap(text, max(width, 40), subsequent_indent=" " * 7)) if width else text


def _footer(analysis: Analysis, verbosity: int, width: int | None) -> Iterator[str]:
    for item in analysis.suppressed:
        until = f", until {one_line(item.until, 40)}" if item.until else ""
        name = f"{item.finding.code} {item.finding.name}"
        yield from _plain(f"Suppressed: {name} ({one_line(item.reason, 200)}{until})", width)
    coverage = analysis.coverage
    if coverage.unknown or coverage.torn:
        counts = [f"{plural(coverage.unknown, 'NCCL line')} of unknown kind"] if coverage.unknown else []
        counts += [f"{plural(coverage.torn, 'torn line')}"] if coverage.torn else []
        yield from _plain("Not understood: " + ", ".join(counts) + ".", width)
    groups = words.not_judged_groups(analysis.not_judged)
    if groups:
        total = len({n.name for n in analysis.not_judged})
        shown = groups if verbosity > 0 else groups[:_GROUPS_SHOWN]
        yield from _plain(f"Not judged: {plural(total, 'diagnosis', 'diagnoses')}.", width)
        for group in shown:
            names = group.names if verbosity > 0 else group.names[:3]
            more = f" and {len(group.names) - len(names)} more" if len(group.names) > len(names) else ""
            how = f"; {group.how_to_enable}" if group.how_to_enable else ""
            yield from _plain(f"  {', '.join(names)}{more}: {group.reason}{how}", width)
        if len(groups) > len(shown):
            yield f"  and for {plural(len(groups) - len(shown), 'other reason')} (-v lists them)"
    for note in analysis.notes:
        yield from _plain("Note: " + one_line(note, 500), width)


def _plain(text: str, width: int | None) -> list[str]:
    if width is None:
        return [text]
    indent = " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(text, max(width, 40), initial_indent=indent, subsequent_indent=indent + "  ") or [
        text
    ]
