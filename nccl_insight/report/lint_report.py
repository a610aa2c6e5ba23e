"""The results of ``lint`` as text for people and as JSON."""

from collections.abc import Iterator, Sequence

from nccl_insight.advise.settings.catalog import catalog
from nccl_insight.advise.settings.lint.model import LintFinding, LintResult
from nccl_insight.base.model import Severity
from nccl_insight.base.natures import code_of
from nccl_insight.base.objects import json_text
from nccl_insight.base.units import plural
from nccl_insight.report import sarif
from nccl_insight.report.sanitize import one_line

_LIMIT = 300
_COLORS = {"FAIL": "1;31", "ERROR": "1;31", "WARN": "1;33", "WARNING": "1;33", "OK": "1;32"}


def render_text(results: Sequence[LintResult], *, color: bool = False, quiet: bool = False) -> str:
    """One verdict line per file, then what was found, with the reason and what to do, by line number."""
    lines: list[str] = []
    for result in results:
        lines.append(_verdict(result, color))
        if quiet:
            continue
        for finding in result.findings:
            lines += ["", *_finding(finding, color)]
        if result.prints:
            lines += ["", "with these settings: " + "; ".join(one_line(p, _LIMIT) for p in result.prints)]
        if result.not_evaluated:
            lines += ["", "not evaluated (nothing is executed):"]
            lines += [f"  {_where(result.path, line)}  {one_line(text, _LIMIT)}" for line, text in result.not_evaluated]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def render_json(results: Sequence[LintResult]) -> str:
    """All results as one JSON document."""
    document = {
        "schema_version": 1,
        "verdict": {
            "status": "findings" if any(r.findings for r in results) else "ok",
            "counts": {s.value: sum(r.count(s) for r in results) for s in Severity},
        },
        "files": [_file(result) for result in results],
    }
    return json_text(document)


def _paint(word: str, color: bool) -> str:
    code = _COLORS.get(word)
    return f"\x1b[{code}m{word}\x1b[0m" if color and code else word


def _verdict(result: LintResult, color: bool) -> str:
    errors, warnings = result.count(Severity.ERROR), result.count(Severity.WARNING)
    word = "FAIL" if errors else "WARN" if warnings else "OK"
    counted = ((errors, "error"), (warnings, "warning"), (result.count(Severity.INFO), "note"))
    counts = ", ".join(plural(n, name) for n, name in counted if n) or "no findings"
    version = f"NCCL {one_line(result.version, 40)}" if result.version else f"NCCL {catalog().latest} assumed"
    facts = f"{plural(len(result.settings), 'setting')}, {version}"
    return f"{_paint(word, color)}  {one_line(result.path, _LIMIT)}  {counts}   {facts}"


def _where(path: str, line: int) -> str:
    return f"{one_line(path, _LIMIT)}:{line}" if line else one_line(path, _LIMIT)


def _finding(finding: LintFinding, color: bool) -> Iterator[str]:
    issue = finding.issue
    code = code_of(issue.name)
    label = f"{code} {issue.name}" if code else issue.name
    yield f"{_paint(finding.severity.word.upper(), color)}  {label}: {one_line(issue.title, 500)}"
    text = f"  {one_line(finding.text, 160)}" if finding.text else ""
    yield f"  where  {_where(finding.path, finding.line)}{text}"
    if issue.explanation and one_line(issue.explanation) not in issue.title:
        yield f"  why    {one_line(issue.explanation, 500)}"
    yield f"  do     {one_line(issue.next_step, 500)}"


def _file(result: LintResult) -> dict[str, object]:
    return {
        "path": one_line(result.path, _LIMIT),
        "kind": result.kind,
        "nccl_version": result.version,
        "settings": [
            {
                "name": one_line(s.name, 120), "value": one_line(s.value, _LIMIT), "line": s.line or None, "how": s.how,
                "exported": s.exported, "conditional": s.conditional, "evaluated": s.complete,
            }
            for s in result.settings
        ],
        "findings": [
            {
                "code": code_of(f.issue.name), "name": f.issue.name, "severity": f.severity.value,
                "variable": one_line(f.issue.variable, 120) or None, "title": one_line(f.issue.title, 500),
                "explanation": one_line(f.issue.explanation, 1000), "next_step": one_line(f.issue.next_step, 500),
                "observed": one_line(f.issue.observed, _LIMIT), "expected": one_line(f.issue.expected, _LIMIT),
                "line": f.line or None, "text": one_line(f.text, _LIMIT), "source": f.issue.source,
            }
            for f in result.findings
        ],
        "prints": [one_line(p, _LIMIT) for p in result.prints],
        "not_evaluated": [{"line": line, "text": one_line(text, _LIMIT)} for line, text in result.not_evaluated],
    }  # fmt: skip


def render_sarif(results: Sequence[LintResult]) -> str:
    """SARIF 2.1.0, as code-scanning pages of forges read it."""
    found = [_result(f) for r in results for f in r.findings]
    names = {r.rule: code_of(r.rule) or r.rule for r in found}
    return sarif.document("nccl-insight lint", found, names, {r.rule: r.rule for r in found})


def _result(finding: LintFinding) -> sarif.Result:
    issue = finding.issue
    said = [one_line(issue.title, 500), one_line(issue.explanation, 1000), one_line(issue.next_step, 500)]
    return sarif.Result(issue.name, finding.severity, said, [(one_line(finding.path, _LIMIT), finding.line)])
