"""``nccl-insight diff``: what changed between two runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import typer

from nccl_insight.base.errors import ExitCode, NotJudgedError, UsageError
from nccl_insight.cli.choices import JavaScript, Level, option

if TYPE_CHECKING:
    from nccl_insight.base.model import Analysis
    from nccl_insight.engine.compare import Comparison
    from nccl_insight.report.html_diff import Side


def _render(kind: str, comparison: Comparison, js: str, sides: tuple[Side, Side] | None = None) -> str:
    from nccl_insight.report import diff

    if kind == "json":
        return diff.to_json(comparison)
    if kind == "md":
        return diff.markdown(comparison)
    if kind == "text":
        return diff.text(comparison)
    if kind == "html":
        from nccl_insight.report import html_diff

        return html_diff.render(comparison, js=js, sides=sides)
    raise UsageError(f"diff cannot write {kind}: use text, json, md or html")


def diff(
    good: str = option("diff GOOD", ...),
    bad: str = option("diff BAD", ...),
    output: list[str] = option("diff --output", [], "-o"),
    format_: Literal["text", "json", "md"] = option("diff --format", "text"),
    redact: bool = option("diff --redact", False),
    redact_level: Level | None = option("diff --redact-level", None),
    js: JavaScript = option("diff --js", "inline"),
    exit_zero: bool = option("diff --exit-zero", False),
) -> None:
    """Say what changed between two runs, the likeliest explanation of the findings that differ first.

    Exit codes: 0 no difference, 1 they differ, 2 usage, 3 nothing to compare, 4 internal error.
    """
    from nccl_insight.cli.output import check_outputs, parse_output, terminal_width, write_text
    from nccl_insight.cli.progress import progress
    from nccl_insight.engine.compare import compare
    from nccl_insight.report.prose import fit
    from nccl_insight.share import api
    from nccl_insight.views.page import structure

    outputs = [parse_output(o) for o in output]
    check_outputs([good, bad], [target for _, target in outputs])
    shown = parse_output(format_)[0]
    with progress([good, bad]):
        runs = [api.load([path], details=False) for path in (good, bad)]
        analyses: list[Analysis] = [api.analyze(run) for run in runs]
    for path, analysis in zip((good, bad), analyses, strict=True):
        if analysis.status == "not_judged":
            raise NotJudgedError(f"{path}: no NCCL line and no trace in it; give the log of the run")
    if redact or redact_level:
        from nccl_insight.cli.redacting import redacted_pair

        analyses, runs = redacted_pair(analyses, runs, strict=redact_level == "strict")
    comparison = compare(runs[0], runs[1], analyses[0], analyses[1])
    sides = ((analyses[0], structure(runs[0])), (analyses[1], structure(runs[1])))
    rendered = [(target, _render(kind, comparison, js, sides)) for kind, target in outputs]
    for target, content in rendered:
        write_text(target, content)
    if not any(target == "-" for _, target in outputs):
        told = _render(shown, comparison, js)
        write_text("-", fit(told, terminal_width()) if shown == "text" else told)
    differs = comparison.differs and not exit_zero
    raise typer.Exit(int(ExitCode.FINDINGS if differs else ExitCode.OK))
