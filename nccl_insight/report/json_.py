"""JSON of an analysis, schema version 1 (``nccl_insight/report/analysis-v1.json``)."""

import json
from dataclasses import asdict, fields
from importlib import resources
from typing import Any

import orjson

from nccl_insight.base.model import Analysis, Finding, Progress, Severity, Step
from nccl_insight.report.sanitize import sanitize
from nccl_insight.report.words import verdict_word

TEXT_LIMIT = 4000


def render(analysis: Analysis) -> str:
    """The analysis as indented JSON; the same analysis always gives the same bytes."""
    return orjson.dumps(to_dict(analysis), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()


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
            "word": verdict_word(analysis),
            "headline": analysis.headline,
            "reasons": analysis.reasons,
            "summary": analysis.summary,
        },
        "job": {
            "nccl_versions": analysis.job.nccl_versions,
            "nranks": analysis.job.nranks,
            "n_nodes": analysis.job.n_nodes,
            "hosts": analysis.job.hosts,
            "gpus": analysis.job.gpus,
            "networks": analysis.job.networks,
            "communicators": analysis.job.communicators,
            "cuda_versions": analysis.job.cuda_versions,
            "driver_versions": analysis.job.driver_versions,
        },
        "progress": _progress(analysis.progress),
        "story": [asdict(moment) for moment in analysis.story],
        "jobs": [
            {
                "label": part.label,
                "inputs": part.inputs,
                "nranks": part.nranks,
                "nccl_versions": part.nccl_versions,
                "judged": part.judged,
                "reached": part.reached,
            }
            for part in analysis.jobs
        ],
        "findings": [finding_dict(f) for f in analysis.findings],
        "suppressed": [{**finding_dict(s.finding), "reason": s.reason, "until": s.until} for s in analysis.suppressed],
        "not_judged": [
            {"name": n.name, "reason": n.reason, "how_to_enable": n.how_to_enable} for n in analysis.not_judged
        ],
        "more": [{"add": m.add, "enables": m.enables, "checks": m.checks} for m in analysis.more],
        "ranks_apart": [
            {
                "figure": apart.figure,
                "median": apart.median,
                "count": apart.count,
                "ranks": [{"rank": rank, "value": value} for rank, value in apart.ranks],
            }
            for apart in analysis.apart
        ],
        "what_if": [asdict(mend) for mend in analysis.what_if],
        "replay": analysis.replay and asdict(analysis.replay),
        "coverage": {
            "lines": coverage.lines,
            "nccl_lines": coverage.nccl_lines,
            "parsed": coverage.parsed,
            "unknown": coverage.unknown,
            "foreign": coverage.foreign,
            "torn": coverage.torn,
            "understood": round(coverage.understood, 6),
            "unknown_templates": [
                {"template": template, "count": count} for template, count in coverage.unknown_templates
            ],
        },
        "inputs": [
            {
                "path": i.path,
                "kind": i.kind,
                "size_bytes": i.size_bytes,
                "sha256": i.sha256,
                "lines": i.lines,
                "nccl_lines": i.nccl_lines,
                "taken_for": i.taken_for,
                "command": i.command,
            }
            for i in analysis.inputs
        ],
        "host_tools": [
            {
                "input": o.input,
                "line": o.line,
                "host": o.host,
                "tool": o.tool,
                "what": o.what,
                "says": o.says,
                "facts": [{"device": d, "name": n, "value": v, "unit": u} for d, n, v, u in o.facts],
            }
            for o in analysis.outputs
        ],
        "tool": {
            "name": analysis.tool.name,
            "version": analysis.tool.version,
            "schema_version": analysis.tool.schema_version,
            "grammar_hash": analysis.tool.grammar_hash,
        },
        "redacted": analysis.redacted,
        "notes": analysis.notes,
    }
    cleaned: dict[str, Any] = _clean(document)
    return cleaned


def _progress(progress: Progress | None) -> dict[str, Any] | None:
    if progress is None:
        return None
    return {
        "line": progress.line,
        "text": progress.text,
        "end": progress.end,
        "total": progress.total,
        "counts": dict(progress.counts),
        "ranks": [{f.name: getattr(row, f.name) for f in fields(row)} for row in progress.ranks],
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
        "title": finding.title,
        "explanation": finding.explanation,
        "next_step": finding.next_step,
        "next_steps": [_step(step) for step in finding.steps],
        "observed": finding.observed,
        "expected": finding.expected,
        "unit": finding.unit,
        "ranks": finding.ranks,
        "hosts": finding.hosts,
        "comm_id": finding.comm_id,
        "role": finding.role.value,
        "caused_by": finding.caused_by,
        "evidence": [
            {"input": e.input, "line": e.line, "text": e.text, "primary": e.primary} for e in finding.evidence
        ],
        "sources": finding.sources,
        "fingerprint": finding.fingerprint,
        "anchor": finding.anchor,
        "first_time": finding.first_time,
        "last_time": finding.last_time,
    }


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return sanitize(value, TEXT_LIMIT)
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value
