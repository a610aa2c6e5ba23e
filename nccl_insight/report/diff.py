"""The comparison of two runs as text, markdown and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from nccl_insight.engine.compare import Change, Comparison, FindingChange
from nccl_insight.model import Ref
from nccl_insight.report.sanitize import one_line
from nccl_insight.units import plural

_LIMIT = 400
_NONE = "(none)"


def text(comparison: Comparison, limit: int = 30) -> str:
    """For a terminal: findings that differ, then changes with the likeliest explanation first, then effects."""
    lines = [_headline(comparison)]
    if comparison.findings:
        lines += ["", "Findings that differ"]
        lines += [f"  {_finding(f)}" for f in comparison.findings]
    causes = [c for c in comparison.changes if not c.effect]
    effects = [c for c in comparison.changes if c.effect]
    for title, changes in (
        ("Changes, the likeliest explanation first", causes),
        ("Measured effects", effects),
    ):
        if changes:
            lines += ["", title]
            for number, change in enumerate(changes[:limit], 1):
                lines += _change_lines(comparison, number, change)
            if len(changes) > limit:
                lines.append(f"  and {len(changes) - limit} more (-o json=FILE has all)")
    lines += ["", *_footer(comparison)]
    return "\n".join(lines).rstrip() + "\n"


def markdown(comparison: Comparison, limit: int = 50) -> str:
    """GitHub-flavoured markdown for a ticket."""
    lines = ["## " + _cell(_headline(comparison)), ""]
    if comparison.findings:
        lines += ["### Findings that differ", "", "| | code | finding | what |", "|---|---|---|---|"]
        for f in comparison.findings:
            severity = f.severity_bad or f.severity_good
            word = f"{f.status}, {severity.value}" if severity else f.status
            lines.append(f"| {word} | {f.code} | {f.name} | {_cell(f.title)} |")
        lines.append("")
    if comparison.changes:
        lines += [
            "### Changes, the likeliest explanation first",
            "",
            "| area | what | good | bad | may explain |",
            "|---|---|---|---|---|",
        ]
        for c in comparison.changes[:limit]:
            explains = ", ".join(c.explains)
            cells = (
                c.area,
                _cell(c.subject),
                _cell(c.good or _NONE),
                _cell(c.bad or _NONE) + _ratio(c),
                explains,
            )
            lines.append(f"| {' | '.join(cells)} |")
        if len(comparison.changes) > limit:
            lines.append(f"\n{len(comparison.changes) - limit} more changes are left out.")
        lines.append("")
    lines += _footer(comparison)
    return "\n".join(lines).rstrip() + "\n"


def to_json(comparison: Comparison) -> str:
    """The whole comparison, schema version 1; the same runs always give the same bytes."""
    return orjson.dumps(to_dict(comparison), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()


def to_dict(comparison: Comparison) -> dict[str, Any]:
    """The comparison as plain values."""
    return {
        "schema_version": 1,
        "good": [one_line(path, _LIMIT) for _, path in comparison.good],
        "bad": [one_line(path, _LIMIT) for _, path in comparison.bad],
        "differs": comparison.differs,
        "findings": [
            {
                "status": f.status,
                "code": f.code,
                "name": f.name,
                "severity_good": f.severity_good.value if f.severity_good else None,
                "severity_bad": f.severity_bad.value if f.severity_bad else None,
                "title": one_line(f.title, _LIMIT),
            }
            for f in comparison.findings
        ],
        "changes": [
            {
                "area": c.area,
                "subject": one_line(c.subject, _LIMIT),
                "good": one_line(c.good, _LIMIT) or None,
                "bad": one_line(c.bad, _LIMIT) or None,
                "ratio": c.ratio,
                "effect": c.effect,
                "score": c.score,
                "explains": list(c.explains),
                "hosts": [one_line(h, _LIMIT) for h in c.hosts],
                "evidence_good": _places(comparison.good, c.evidence_good),
                "evidence_bad": _places(comparison.bad, c.evidence_bad),
            }
            for c in comparison.changes
        ],
        "same": list(comparison.same),
        "not_compared": [{"area": n.area, "reason": n.reason} for n in comparison.not_compared],
    }


def _headline(comparison: Comparison) -> str:
    if not comparison.differs:
        return "SAME  no difference in what both runs show"
    counts = {s: sum(f.status == s for f in comparison.findings) for s in ("new", "worse", "better", "gone")}
    words = ", ".join(f"{n} {s}" for s, n in counts.items() if n)
    return f"DIFF  findings: {words or 'the same'}; {plural(len(comparison.changes), 'change')}"


def _finding(change: FindingChange) -> str:
    severity = change.severity_bad or change.severity_good
    word = severity.value.upper() if severity else ""
    if change.status in {"worse", "better"} and change.severity_good and change.severity_bad:
        word = f"{change.severity_good.value} -> {change.severity_bad.value}"
    return f"{change.status:<6} {word:<8} {change.code} {change.name}: {one_line(change.title, _LIMIT)}"


def _change_lines(comparison: Comparison, number: int, change: Change) -> list[str]:
    good, bad = one_line(change.good, _LIMIT) or _NONE, one_line(change.bad, _LIMIT) or _NONE
    head = f"{number:3}. {change.area}: {one_line(change.subject, _LIMIT)}: {good} -> {bad}{_ratio(change)}"
    lines = [head]
    if change.hosts:
        lines.append(f"       differs on {', '.join(one_line(h, 80) for h in change.hosts[:6])}")
    if change.explains:
        lines.append(f"       may explain {', '.join(change.explains)}")
    where = [
        *_places(comparison.good, change.evidence_good)[:1],
        *_places(comparison.bad, change.evidence_bad)[:1],
    ]
    if where:
        lines.append(f"       see {', '.join(where)}")
    return lines


def _ratio(change: Change) -> str:
    return "" if change.ratio is None else f" (x {change.ratio:.2f})"


def _places(inputs: Sequence[tuple[int, str]], refs: Sequence[Ref]) -> list[str]:
    paths = dict(inputs)
    return [f"{one_line(paths.get(r.input_id, ''), _LIMIT)}:{r.line}" for r in refs]


def _footer(comparison: Comparison) -> list[str]:
    lines = []
    if comparison.same:
        lines.append(f"The same: {', '.join(comparison.same)}.")
    lines += [f"Not compared: {n.area} ({n.reason})." for n in comparison.not_compared]
    return lines


def _cell(value: str) -> str:
    escaped = one_line(value, _LIMIT).replace("\\", "\\\\")
    for mark in "|`*_<>[]#":
        escaped = escaped.replace(mark, "\\" + mark)
    return escaped
