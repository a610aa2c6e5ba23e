"""``nccl-insight analyze``: the default job."""

from __future__ import annotations

import datetime
import importlib
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nccl_insight.base.data import dataclass
from nccl_insight.base.errors import ExitCode
from nccl_insight.cli.choices import Color, FailOn, JavaScript, Level, diagnoses, formats, option

if TYPE_CHECKING:
    from nccl_insight.base.model import Analysis
    from nccl_insight.cli.progress import Tasks
    from nccl_insight.engine.policy import Policy
    from nccl_insight.inputs.limits import Limits
    from nccl_insight.share.redact import Redactor
    from nccl_insight.tables.run import Run


# What writes the formats that need the analysis alone.
_PLAIN = {"json": "json_.render", "chat": "ticket.chat", "story": "story.whole"}
_PLAIN |= {k: f"{k}.render" for k in ("sarif", "text")}


def _render(kind: str, analysis: Analysis, run: Run, policy: Policy, js: str, redactor: Redactor | None = None) -> str:
    # Each format imports what it needs: a report as HTML alone has sixty modules.
    if kind in _PLAIN:
        module, _, function = _PLAIN[kind].partition(".")
        return str(getattr(importlib.import_module(f"nccl_insight.report.{module}"), function)(analysis))
    if kind == "md":
        from nccl_insight.cli.redacting import command_line
        from nccl_insight.report import markdown, ticket
        from nccl_insight.views.platform import platform

        return markdown.render(analysis, ticket.platform(analysis, platform(run), command_line(redactor)))
    if kind == "card":
        from nccl_insight.report import card
        from nccl_insight.report.figures import build
        from nccl_insight.report.html.findings import proof
        from nccl_insight.views.figures import figures

        return card.render(analysis, proof(analysis, build(analysis, figures(run))))
    if kind == "github-issue":
        from nccl_insight.report import ticket
        from nccl_insight.views.platform import platform

        return ticket.github_issue(analysis, platform(run))
    if kind == "junit":
        from nccl_insight.report import junit

        return junit.render(analysis) if policy.fail_on is None else junit.render(analysis, fail_on=policy.fail_on)
    from nccl_insight.cli.redacting import command_line
    from nccl_insight.report import html
    from nccl_insight.views.page import page

    return html.render(analysis, page(run, analysis), js=js, command=command_line(redactor))


def exit_code(analysis: Analysis, policy: Policy, strict: bool = False) -> ExitCode:
    """What the verdict means for the shell. ``strict``: no proof of health counts as not judged."""
    if analysis.status == "not_judged" or (strict and analysis.status == "inconclusive"):
        return ExitCode.NOT_JUDGED
    if policy.fails(analysis.findings):
        return ExitCode.FINDINGS
    return ExitCode.OK


def _prepare() -> None:
    """Imports what judges, which takes as long as reading some ten MB."""
    from nccl_insight.rules import discover

    importlib.import_module("nccl_insight.engine.analyze")
    discover()


@dataclass(frozen=True)
class _Wanted:
    """Where the results go and how they look. ``outputs``: formats and files."""

    outputs: tuple[tuple[str, str], ...]
    format_: str
    bundle: Path | None
    timeline: str | None
    review: Path | None
    strict_redaction: bool
    js: str
    colored: bool
    quiet: int
    verbose: int

    @property
    def targets(self) -> list[str | Path]:
        """All that is written."""
        also = (self.bundle, self.timeline, self.review)
        return [*(target for _, target in self.outputs), *(target for target in also if target)]


def _judged(
    paths: list[str], kind: str, engine: str, policy: Policy, limits: Limits, user: tuple[str, str], tasks: Tasks | None
) -> tuple[Analysis, Run]:
    """Reads the inputs and judges them; ``user``: the symptom that the user saw, and the NICs."""
    from nccl_insight.loading import load

    run = load(
        paths, None if kind == "auto" else kind, details=False, engine=engine, communication=policy.communication,
        limits=limits, watch=tasks, meanwhile=_prepare,
    )  # fmt: skip
    from nccl_insight.engine import analyze as judging  # by now imported, where the input is large

    return judging.analyze(run, policy, symptom=user[0], nics=user[1]), run


def _followed(
    paths: list[str], judge: Callable[[], tuple[Analysis, Run]], idle: float | None, most_bytes: int, wanted: _Wanted
) -> tuple[Analysis, Run]:
    """Judges again whenever the inputs grow, with a line for each verdict."""
    from nccl_insight.cli.following import follow
    from nccl_insight.cli.output import write_text
    from nccl_insight.report import text

    def show(seen: Analysis) -> None:
        line = text.render(seen, color=wanted.colored, verbosity=-1 - min(wanted.quiet, 1))
        write_text("-", f"{datetime.datetime.now():%H:%M:%S}  {line}" if line else line)

    def warn(said: str) -> None:
        sys.stderr.write(f"{said}\n")

    return follow(paths, judge, show, idle, most_bytes=most_bytes, warn=warn) or judge()


def _write(analysis: Analysis, run: Run, policy: Policy, wanted: _Wanted) -> Analysis:
    """Writes all that is wanted; the analysis as it is shown, with names replaced where the policy says so."""
    from nccl_insight.cli.output import parse_output, terminal_width, write_bytes, write_text
    from nccl_insight.report.picture import png

    redactor = None
    if policy.redact:
        from nccl_insight.cli.redacting import redacted, write_review

        analysis, run, redactor = redacted(analysis, run, strict=wanted.strict_redaction)
        if wanted.review is not None:
            write_review(wanted.review, redactor)
    if wanted.timeline is not None:
        from nccl_insight.report.timeline import chrome_json
        from nccl_insight.views.events import events

        timed = events(run)
        write_text(wanted.timeline, chrome_json(timed).decode())
        if timed is None:
            empty = "an empty timeline: no collective of these inputs has times (give traces)"
            sys.stderr.write(f"{wanted.timeline}: {empty}\n")
    rendered = [(target, _render(kind, analysis, run, policy, wanted.js, redactor)) for kind, target in wanted.outputs]
    drawn = {target for kind, target in wanted.outputs if kind == "card" and target.lower().endswith(".png")}
    pictures = {target: png(content) for target, content in rendered if target in drawn}
    for target, content in rendered:
        if target in pictures:
            write_bytes(target, pictures[target])
        else:
            write_text(target, content)
    if wanted.bundle is not None:
        from nccl_insight.cli.redacting import write_bundle

        write_bundle(wanted.bundle, analysis, run, redactor)
    if any(target == "-" for _, target in wanted.outputs) or wanted.quiet > 1:
        return analysis
    if wanted.format_ == "text":
        from nccl_insight.report import text

        width = terminal_width()
        base, loud = text.common_base(analysis), wanted.verbose - wanted.quiet
        links = width is not None
        shown = text.render(analysis, color=wanted.colored, verbosity=loud, width=width, base=base, links=links)
    else:
        shown = _render(parse_output(wanted.format_)[0], analysis, run, policy, wanted.js, redactor)
    write_text("-", shown)
    return analysis


def analyze(
    paths: list[str] = option("analyze PATH...|-", ...),
    output: list[str] = option("analyze --output", [], "-o", autocompletion=formats),
    format_: str = option("analyze --format", "text", autocompletion=formats),
    input_format: str = option("analyze --input-format", "auto"),
    engine: Literal["local", "ray"] = option("analyze --engine", "local"),
    fail_on: FailOn | None = option("analyze --fail-on", None),
    select: list[str] = option("analyze --select", [], autocompletion=diagnoses),
    ignore: list[str] = option("analyze --ignore", [], autocompletion=diagnoses),
    min_coverage: float | None = option("analyze --min-coverage", None),
    config: Path | None = option("analyze --config", None),
    isolated: bool = option("analyze --isolated", False),
    redact: bool = option("analyze --redact", False),
    redact_level: Level | None = option("analyze --redact-level", None),
    redact_report: Path | None = option("analyze --redact-report", None),
    bundle: Path | None = option("analyze --bundle", None),
    js: JavaScript = option("analyze --js", "inline"),
    follow: bool = option("analyze --follow", False),
    idle: float | None = option("analyze --idle", None),
    strict: bool = option("analyze --strict", False),
    symptom: Literal["hang", "slow", "crash"] | None = option("analyze --symptom", None),
    nics: str | None = option("analyze --nics", None),
    exit_zero: bool = option("analyze --exit-zero", False),
    color: Color = option("analyze --color", "auto"),
    quiet: int = option("analyze --quiet", 0, "-q", count=True),
    timeline: str | None = option("analyze --timeline", None),
    limit: list[str] = option("analyze --limit", []),
    verbose: int = option("analyze --verbose", 0, "-v", count=True),
) -> int:
    """Say what happened in a run: findings with evidence, cause and next step.

    Exit codes: 0 nothing at or above --fail-on, 1 findings, 2 usage, 3 nothing to judge, 4 internal error.
    """
    from nccl_insight.cli.output import check_outputs, parse_output, use_color, working_directory
    from nccl_insight.cli.progress import progress
    from nccl_insight.engine.policy import load_policy
    from nccl_insight.inputs.limits import changed, parsed

    outputs = tuple(parse_output(o) for o in output)
    whole = (redact_level or ("strict" if bundle else "names")) == "strict"
    wanted = _Wanted(outputs, format_, bundle, timeline, redact_report, whole, js, use_color(color), quiet, verbose)
    check_outputs(paths, wanted.targets)
    hidden = redact or redact_level is not None or redact_report is not None or None
    asked = {"fail-on": fail_on, "select": select, "ignore": ignore, "min-coverage": min_coverage, "redact": hidden}
    today = datetime.date.today()
    policy = load_policy(
        asked, config=config, isolated=isolated, cwd=working_directory(), environ=dict(os.environ), today=today
    )
    limits = changed(parsed(limit), policy.limits)
    judge = partial(_judged, paths, input_format, engine, policy, limits, (symptom or "", nics or ""))
    if follow:
        analysis, run = _followed(paths, partial(judge, None), idle, limits.follow_mib << 20, wanted)
    else:
        with progress(paths, quiet=quiet > 0) as tasks:
            analysis, run = judge(tasks)
    code = exit_code(_write(analysis, run, policy, wanted), policy, strict)
    return int(ExitCode.OK if exit_zero and code is ExitCode.FINDINGS else code)


def without_options(paths: list[str]) -> int:
    """The same for paths alone, which need no parser: loading it takes as long as a fifth of importing polars."""
    return analyze(paths, *(offered.default for offered in (analyze.__defaults__ or ())[1:]))
