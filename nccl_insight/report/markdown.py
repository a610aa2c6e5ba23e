"""GitHub-flavoured markdown for pasting into a ticket: below 60,000 characters, log text kept inert."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from nccl_insight.base.model import Analysis, Finding
from nccl_insight.base.units import listed, plural
from nccl_insight.report import words
from nccl_insight.report.fill import environment, marked
from nccl_insight.report.sanitize import one_line, sanitize

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

LIMIT = 60_000
_FINDINGS_SHARE = 45_000
_EVIDENCE_SHOWN = 5
_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~!$])")
_BREAK = "<!-- -->"


def render(analysis: Analysis, platform: str = "") -> str:
    """The analysis as markdown, always shorter than :data:`LIMIT` characters.

    ``platform``: what the inputs tell of versions, GPUs, topology, network, environment and command, as
    :func:`nccl_insight.report.ticket.platform` writes it; it comes after the findings.
    """
    untold = [i for i in analysis.inputs if i.kind == "unreadable" or (analysis.status == "not_judged" and i.taken_for)]
    filled = fill(
        "report.md",
        analysis=analysis,
        facts=_facts(analysis),
        untold=untold,
        findings=_findings(analysis.findings),
        platform=platform,
    )
    return bounded(filled, "the report does not fit into a ticket; see the HTML or JSON report")


def bounded(text: str, why: str) -> str:
    """The text, cut where it is not shorter than :data:`LIMIT` characters, with the reason."""
    text = text.rstrip() + "\n"
    if len(text) < LIMIT:
        return text
    ending = f"\n\n(cut here: {why})\n"
    return close_fence(text[: LIMIT - len(ending) - 64]) + ending


def fill(name: str, **values: object) -> Markup:
    """The template of that name in ``templates``; values are escaped as markdown, but for what its filters make."""
    return marked(_environment().get_template(name).render(values))


@cache
def _environment() -> Environment:
    filters: dict[str, Callable[..., str]] = {
        "code": lambda text: marked(code_span(text)),
        "codes": lambda texts, limit: marked(listed(map(code_span, texts), limit)),
        "fence": lambda lines, language: marked(fence(lines, language)),
        "inline": lambda text: marked(inline(text)),
        "own": marked,
    }
    return environment(escape, filters)


def finding(item: Finding) -> Markup:
    """One finding as a markdown section (what the report's copy buttons give)."""
    shown = item.evidence[:_EVIDENCE_SHOWN]
    lines = list(map(words.quoted, shown))
    if len(item.evidence) > len(shown):
        lines.append(f"... and {len(item.evidence) - len(shown)} more")
    return fill("finding.md", item=item, lines=lines)


def escape(text: str) -> str:
    """Text that markdown and GitHub show as it is: no markup, no HTML, no mention, no automatic link."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _SPECIAL.sub(r"\\\1", text)
    text = text.replace("@", f"@{_BREAK}").replace("://", f":{_BREAK}//")
    return re.sub(r"(?i)\bwww\.", f"www{_BREAK}.", text)


def code_span(text: str) -> str:
    """An inline code span that its content cannot close; ``|`` is escaped for tables."""
    ticks = "`" * (1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}".replace("|", "\\|")


def inline(text: str) -> str:
    """Prose of a rule: pieces between backticks become code spans, the rest is escaped."""
    return "".join(code_span(piece) if code else escape(piece) for code, piece in words.code_parts(text))


def fence(lines: Iterable[str], language: str = "") -> str:
    """A fenced block that its content cannot close."""
    body = "\n".join(sanitize(line) for line in lines)
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", body)), default=0))
    return f"{ticks}{language}\n{body}\n{ticks}"


def close_fence(text: str) -> str:
    """The text with a fence closed that was open at its end."""
    text = text.rsplit("\n", 1)[0]
    ticks = ""
    for line in text.split("\n"):
        match = re.match(r"(`{3,})", line)
        if match and not ticks:
            ticks = match[1]
        elif ticks and line == ticks:
            ticks = ""
    return f"{text}\n{ticks}" if ticks else text


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table whose cells are already markdown."""
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def _facts(analysis: Analysis) -> str:
    job = analysis.job
    parts = [words.job_line(analysis)]
    parts += [f"CUDA {', '.join(one_line(v, 40) for v in job.cuda_versions)}"] if job.cuda_versions else []
    parts += [f"driver {', '.join(one_line(v, 40) for v in job.driver_versions)}"] if job.driver_versions else []
    parts += [f"network {', '.join(one_line(v, 40) for v in job.networks)}"] if job.networks else []
    return ", ".join(filter(None, [*parts, words.coverage_line(analysis)])) or "No facts about the job were found."


def _findings(findings: Sequence[Finding]) -> list[Markup]:
    parts: list[Markup] = []
    used = 0
    for number, item in enumerate(findings):
        part = finding(item)
        if used + len(part) > _FINDINGS_SHARE:
            left = plural(len(findings) - number, "more finding")
            parts.append(marked(f"*... and {left}: see the HTML or JSON report.*\n"))
            break
        parts.append(part)
        used += len(part)
    return parts
