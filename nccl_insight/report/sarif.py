"""SARIF 2.1.0, as code-scanning pages of forges read it: the frame that every command shares, and findings in it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Analysis, Severity
from nccl_insight.base.objects import json_text
from nccl_insight.base.version import __version__
from nccl_insight.report.sanitize import one_line

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS: Final[Mapping[Severity, str]] = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_LIMIT: Final = 300
_LOCATIONS: Final = 10


@dataclass(frozen=True)
class Result:
    """One result: the rule, what it says, and where (path and line; line 0 is the file as a whole)."""

    rule: str
    severity: Severity
    sentences: Sequence[str]
    places: Sequence[tuple[str, int]]
    fingerprint: str = ""


def document(tool: str, results: Sequence[Result], names: Mapping[str, str], summaries: Mapping[str, str]) -> str:
    """The document of one tool run. ``names`` and ``summaries``: readable name and description by rule."""
    rules = sorted({r.rule for r in results})
    described = [
        {"id": rule, "name": names.get(rule, rule), "shortDescription": {"text": _no_link(summaries.get(rule) or rule)}}
        for rule in rules
    ]
    run = {
        "tool": {"driver": {"name": tool, "version": __version__, "rules": described}},
        "results": [_result(r, rules) for r in results],
    }
    return json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def render(analysis: Analysis) -> str:
    """The findings of an analysis; the evidence lines are the locations, the fingerprint is stable across runs."""
    results = [
        Result(
            f.code,
            f.severity,
            [one_line(f.title, 500), one_line(f.explanation, 1000), one_line(f.next_step, 500)],
            [(e.input, e.line) for e in sorted(f.evidence, key=lambda e: not e.primary)],
            f.fingerprint,
        )
        for f in analysis.findings
    ]
    return document(
        "nccl-insight",
        results,
        {f.code: f.name for f in analysis.findings},
        {f.code: f"{f.name}: {one_line(f.title, 200)}" for f in analysis.findings},
    )


def _result(result: Result, rules: Sequence[str]) -> dict[str, Any]:
    text = _no_link(". ".join(w.rstrip(".") for w in result.sentences if w) + ".")
    found: dict[str, Any] = {
        "ruleId": result.rule,
        "ruleIndex": rules.index(result.rule),
        "level": LEVELS[result.severity],
        "message": {"text": text},
        "locations": [
            {"physicalLocation": {"artifactLocation": {"uri": _uri(path)}, "region": {"startLine": max(line, 1)}}}
            for path, line in result.places[:_LOCATIONS]
            if path
        ],
    }
    if result.fingerprint:
        found["partialFingerprints"] = {"ncclInsight/v1": result.fingerprint}
    return found


def _no_link(text: str) -> str:
    """Text of a log that reads like ``[words](address)`` would become a link in viewers (SARIF 2.1.0, 3.11.6)."""
    return text.replace("](", "] (")


def _uri(path: str) -> str:
    """A path as a reference without scheme or host: two slashes in front would name a host."""
    shown = one_line(path, _LIMIT)
    return quote(f"/{shown.lstrip('/')}" if shown.startswith("//") else shown)
