"""JSON of an analysis, schema version 1 (``nccl_insight/report/analysis-v1.json``)."""

import json
from dataclasses import asdict, fields
from importlib import resources
from typing import Any

from nccl_insight.base.model import Analysis, Finding, Progress, Severity, Step
from nccl_insight.base.objects import json_text
from nccl_insight.report.sanitize import sanitize

TEXT_LIMIT = 4000


def render(analysis: Analysis) -> str:
    """The analysis as indented JSON; the same analysis always gives the same bytes."""
    return json_text(to_dict(analysis))


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that :func:`render` follows."""
    text = resources.files(__package__).joinpath("analysis-v1.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def to_dict(analysis: Analysis) -> dict[str, Any]:
    """The analysis as plain values, strings sanitised, in the published order of keys."""
    coverage = analysis.coverage
    document = {
        "schema_version": 1,
        "verdict": {
            "status": analysis.status,
            "counts": {severity.value: analysis.count(severity) for severity in Severity},
            "word": analysis.verdict,
            "headline": analysis.headline,
            "reasons": analysis.reasons,
            "summary": analysis.summary,
        },
        "job": row(analysis.job),
        "progress": _progress(analysis.progress),
        "story": [asdict(moment) for moment in analysis.story],
        "jobs": [row(part) for part in analysis.jobs],
        "findings": [finding_dict(f) for f in analysis.findings],
        "suppressed": [{**finding_dict(s.finding), "reason": s.reason, "until": s.until} for s in analysis.suppressed],
        "not_judged": [row(n, "name", "reason", "how_to_enable") for n in analysis.not_judged],
        "more": [row(m) for m in analysis.more],
        "ranks_apart": [
            {**row(apart, "figure", "median", "count"), "ranks": [{"rank": r, "value": v} for r, v in apart.ranks]}
            for apart in analysis.apart
        ],
        "what_if": [asdict(mend) for mend in analysis.what_if],
        "replay": analysis.replay and asdict(analysis.replay),
        "coverage": {
            **row(coverage, "lines", "nccl_lines", "parsed", "unknown", "foreign", "torn"),
            "understood": round(coverage.understood, 6),
            "unknown_templates": [{"template": t, "count": count} for t, count in coverage.unknown_templates],
        },
        "inputs": [
            row(i, "path", "kind", "size_bytes", "sha256", "lines", "nccl_lines", "taken_for", "command")
            for i in analysis.inputs
        ],
        "host_tools": [
            {**row(o), "facts": [{"device": d, "name": n, "value": v, "unit": u} for d, n, v, u in o.facts]}
            for o in analysis.outputs
        ],
        "tool": row(analysis.tool),
        "redacted": analysis.redacted,
        "notes": analysis.notes,
    }
    cleaned: dict[str, Any] = _clean(document)
    return cleaned


def row(value: Any, *names: str) -> dict[str, Any]:
    """Fields of a dataclass by name, all of them for none."""
    return {name: getattr(value, name) for name in names or (f.name for f in fields(value))}


def _progress(progress: Progress | None) -> dict[str, Any] | None:
    if progress is None:
        return None
    return {
        **row(progress, "line", "text", "end", "total"),
        "counts": dict(progress.counts),
        "ranks": [row(rank) for rank in progress.ranks],
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "kind": step.label,
        "command" if step.is_command else "text": step.text,
        "where": step.where,
        "needs_root": step.needs_root,
        "while_running": step.while_running,
    }


def finding_dict(finding: Finding) -> dict[str, Any]:
    """One finding as plain values (strings not yet sanitised)."""
    return {
        "code": finding.code,
        "name": finding.name,
        "class": finding.finding_class.value,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "action": finding.action.value,
        **row(finding, "title", "explanation", "next_step"),
        "next_steps": [_step(step) for step in finding.steps],
        **row(finding, "observed", "expected", "unit", "ranks", "hosts", "comm_id"),
        "role": finding.role.value,
        "caused_by": finding.caused_by,
        "evidence": [row(e) for e in finding.evidence],
        **row(finding, "sources", "fingerprint", "anchor", "first_time", "last_time"),
    }


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return sanitize(value, TEXT_LIMIT)
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value
