"""GitHub-flavoured markdown for pasting into a ticket: below 60,000 characters, log text kept inert."""

import re
from collections.abc import Iterable, Sequence

from nccl_insight.base.model import Analysis, Finding, Role, Step
from nccl_insight.base.units import format_bytes, listed, plural
from nccl_insight.report import story, words
from nccl_insight.report.sanitize import one_line, sanitize

LIMIT = 60_000
_FINDINGS_SHARE = 45_000
_EVIDENCE_SHOWN = 5
_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~!$])")
_BREAK = "<!-- -->"


def render(analysis: Analysis, platform: Sequence[str] = ()) -> str:
    """The analysis as markdown, always shorter than :data:`LIMIT` characters.

    ``platform``: what the inputs tell of versions, GPUs, topology, network, environment and command, as
    :func:`nccl_insight.report.ticket.platform` writes it; it comes after the findings.
    """
    top = [
        f"## {analysis.verdict}: {escape(words.cause(analysis))}",
        "",
        escape(_facts(analysis)),
        "",
        *_journey(analysis),
    ]
    body = [*top, *_findings(analysis.findings), *platform, *_suppressed(analysis), *_not_judged(analysis)]
    body += [*_coverage(analysis), *_outputs(analysis), *_inputs(analysis), *_tail(analysis)]
    text = "\n".join(body).rstrip() + "\n"
    if len(text) < LIMIT:
        return text
    ending = "\n\n(cut here: the report does not fit into a ticket; see the HTML or JSON report)\n"
    return close_fence(text[: LIMIT - len(ending) - 64]) + ending


def _journey(analysis: Analysis) -> list[str]:
    """How far the job got, and what else the inputs are."""
    rows = [f"- {escape(line)}" for line in analysis.summary] if analysis.status == "ok" else []
    if story.told(analysis):
        moments = story.first_screen(analysis.story)
        rows += [f"**{story.TITLE}**" + (f" ({story.day(moments)})" if story.day(moments) else ""), ""]
        for row in story.rows(moments):
            clock, text = f"`{row.clock}` " if row.clock else "", escape(row.text)
            place = f" ({code_span(row.place)})" if row.place else ""
            rows.append(f"- {clock}{row.kind}: {f'**{text}**' if row.guilty else text}{place}")
        if graph := story.waits(analysis):
            rows += ["", "```mermaid", graph, "```", ""]
    elif analysis.progress is not None:
        rows.append(f"- **How far the job got:** {escape(analysis.progress.line)}")
    rows += [f"- {escape(reason)}" for reason in analysis.reasons[1:4]]
    rows += [f"- {escape(words.job_part(part))}" for part in analysis.jobs]
    rows += [
        f"- {code_span(one_line(i.path, 300))}: {escape(one_line(i.taken_for, 200))}"
        + (f"; {code_span(one_line(i.command, 500))}" if i.command else "")
        for i in analysis.inputs
        if i.kind == "unreadable" or (analysis.status == "not_judged" and i.taken_for)
    ][:20]
    return [*rows, ""] if rows else []


def _steps(steps: Sequence[Step]) -> list[str]:
    """Commands in fenced blocks that can be copied raw, words as words."""
    rows: list[str] = []
    for step in steps:
        where = f" ({escape(step.where)})" if step.where else ""
        if step.is_command:
            rows += [f"- **{step.label.capitalize()}**{where}:", "", fence([step.text], "sh"), ""]
        else:
            rows += [f"- **Do:** {inline(step.text)}{where}", ""]
    return rows


def finding(item: Finding) -> str:
    """One finding as a markdown section (what the report's copy buttons give)."""
    rows = [
        f"### {item.severity.word.upper()} {item.code} {item.name}",
        "",
        f"**{escape(one_line(item.title, 500))}**",
        "",
    ]
    evidence = words.primary(item)
    where = [code_span(words.location(evidence))] if evidence else []
    where += [escape(a) for a in [words.affected(item)] if a]
    if where:
        rows.append(f"- **Where:** {'; '.join(where)}")
    if words.compared(item):
        rows.append(f"- **Why:** {escape(words.compared(item))}")
    rows.append(f"- Action `{item.action.value}`, confidence `{item.confidence.value}`{_role(item)}")
    rows += _steps(words.steps(item))
    if item.explanation:
        rows += ["", inline(item.explanation)]
    if item.evidence:
        shown = item.evidence[:_EVIDENCE_SHOWN]
        lines = [f"{words.location(e)}: {one_line(e.text, 1000)}" for e in shown]
        if len(item.evidence) > len(shown):
            lines.append(f"... and {len(item.evidence) - len(shown)} more")
        rows += ["", *folded(f"Evidence: {plural(len(item.evidence), 'line')}", fence(lines, "log"))]
    rows += [""]
    return "\n".join(rows) + "\n"


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


def folded(summary: str, body: str) -> list[str]:
    """A block that opens when its summary is clicked."""
    return ["<details>", f"<summary>{summary}</summary>", "", body, "", "</details>"]


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


def _role(item: Finding) -> str:
    if item.role is Role.CASCADE and item.caused_by:
        return f", follows from {code_span(one_line(item.caused_by, 80))}"
    return ", root cause" if item.role is Role.ROOT else ""


def _findings(findings: Sequence[Finding]) -> list[str]:
    parts: list[str] = []
    used = 0
    for number, item in enumerate(findings):
        part = finding(item)
        if used + len(part) > _FINDINGS_SHARE:
            parts.append(f"*... and {plural(len(findings) - number, 'more finding')}: see the HTML or JSON report.*\n")
            break
        parts.append(part)
        used += len(part)
    return parts


def _suppressed(analysis: Analysis) -> list[str]:
    if not analysis.suppressed:
        return []
    rows = [
        f"- `{s.finding.code} {s.finding.name}`: {escape(one_line(s.reason, 300))}"
        + (f", until {escape(one_line(s.until, 40))}" if s.until else "")
        for s in analysis.suppressed[:50]
    ]
    return ["### Suppressed", "", *rows, ""]


def _not_judged(analysis: Analysis) -> list[str]:
    groups = words.not_judged_groups(analysis.not_judged)
    if not groups:
        return []
    if said := words.without_a_log(analysis):
        return ["### Not judged", "", escape(said), ""]
    rows = [
        [listed((f"`{name}`" for name in group.names), 8), escape(group.reason), inline(group.how_to_enable)]
        for group in groups[:20]
    ]
    left = _rest(len(groups) - 20, "reason")
    return ["### Not judged", "", *table(["Diagnoses", "Because", "To enable"], rows), *left]


def _coverage(analysis: Analysis) -> list[str]:
    coverage = analysis.coverage
    if not coverage.lines:
        return []
    rows = [
        ["understood NCCL lines", f"{coverage.parsed:,}"],
        ["NCCL lines of unknown kind", f"{coverage.unknown:,}"],
        ["lines of other programs", f"{coverage.foreign:,}"],
        ["torn lines", f"{coverage.torn:,}"],
        ["all lines", f"{coverage.lines:,}"],
    ]
    return ["### Coverage", "", *table(["Lines", "Count"], rows)]


def _inputs(analysis: Analysis) -> list[str]:
    if not analysis.inputs:
        return []
    rows = [
        [code_span(one_line(i.path, 200)), i.kind, format_bytes(i.size_bytes), f"`{i.sha256[:16]}`" if i.sha256 else ""]
        for i in analysis.inputs[:20]
    ]
    left = _rest(len(analysis.inputs) - len(rows), "input")
    return ["### Inputs", "", *table(["File", "Kind", "Size", "SHA-256 (first 16)"], rows), *left]


def _rest(left: int, what: str) -> list[str]:
    """That a table leaves some out."""
    return [f"*... and {plural(left, f'more {what}')}.*", ""] if left > 0 else []


def _outputs(analysis: Analysis) -> list[str]:
    if not analysis.outputs:
        return []
    rows = [
        [code_span(f"{one_line(o.input, 200)}:{o.line}"), escape(one_line(o.what, 120)), escape(one_line(o.says, 300))]
        for o in analysis.outputs[:20]
    ]
    left = _rest(len(analysis.outputs) - len(rows), "output")
    return ["### Host tools", "", *table(["Place", "What it is", "What it says"], rows), *left]


def _tail(analysis: Analysis) -> list[str]:
    notes = [f"- {escape(one_line(note, 500))}" for note in analysis.notes[:20]]
    tool = analysis.tool
    redaction = "hosts, addresses, users and paths replaced" if analysis.redacted else "NOT redacted"
    last = f"{tool.name} {tool.version}, grammar {tool.grammar_hash}, {redaction}"
    return [*notes, "", f"<sub>{escape(one_line(last, 300))}</sub>"]
