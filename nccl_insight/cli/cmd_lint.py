"""``nccl-insight lint``: launch scripts and environments, checked before they cost an allocation."""

import os
import re
import sys
from difflib import unified_diff
from pathlib import Path
from typing import Literal, TypeAlias

import typer

from nccl_insight.base.errors import ExitCode, NotJudgedError, UsageError, as_usage
from nccl_insight.base.units import listed
from nccl_insight.cli.choices import Color, FailOn, option

Script: TypeAlias = tuple[str, str]
_MAX_BYTES = 4 << 20
_LEVELS = {"error": 0, "warning": 1, "info": 2, "never": -1}


def lint(
    scripts: list[str] | None = option("lint SCRIPT...|-", None),
    env: bool = option("lint --env", False),
    nccl_version: str | None = option("lint --nccl-version", None),
    kind: str = option("lint --kind", "auto"),
    format_: Literal["text", "json", "sarif"] = option("lint --format", "text"),
    output: str = option("lint --output", "-", "-o"),
    fail_on: FailOn = option("lint --fail-on", "warning"),
    color: Color = option("lint --color", "auto"),
    quiet: bool = option("lint --quiet", False, "-q"),
    diff: bool = option("lint --diff", False),
    fix: bool = option("lint --fix", False),
) -> None:
    """Check NCCL_* settings and launch commands of scripts, or of this shell. Executes nothing.

    Exit codes: 0 nothing at or above --fail-on, 1 findings, 2 usage, 3 nothing to judge.
    """
    from nccl_insight.advise.settings.lint import lint_environment, lint_text
    from nccl_insight.cli.output import check_outputs, use_color, write_text
    from nccl_insight.report import lint_report

    scripts = scripts or []
    if not scripts and not env:
        raise UsageError("lint: name a script, or use --env for this shell's variables")
    chosen = _chosen(kind, nccl_version)
    colored = use_color(color) and output == "-"
    check_outputs(scripts, [output])
    named = list(map(_read, scripts))
    if diff or fix:
        named = _fixed(named, nccl_version, chosen, output if diff else None)
    results = [lint_text(path, text, nccl_version, chosen) for path, text in named]
    if results and not env and not any(r.judged for r in results):
        raise NotJudgedError(
            f"{results[0].path}: neither an NCCL setting nor a launch command found (read as {results[0].kind};"
            " --kind says otherwise)"
        )
    if env:
        results.append(lint_environment(os.environ, nccl_version))
    if format_ == "text":
        text = lint_report.render_text(results, color=colored, quiet=quiet)
    else:
        text = (lint_report.render_json if format_ == "json" else lint_report.render_sarif)(results)
    write_text(output, text)
    if any(f.severity.order <= _LEVELS[fail_on] for r in results for f in r.findings):
        raise typer.Exit(ExitCode.FINDINGS)


def _chosen(kind: str, nccl_version: str | None) -> str | None:
    """The kind that is asked for. Raises UsageError: there is none such, or no such release."""
    from nccl_insight.advise.settings.lint import KINDS

    if kind not in {"auto", *KINDS}:
        raise UsageError(f"--kind {kind!r}: use auto, {', '.join(KINDS)}")
    if nccl_version is not None and re.match(r"\d+\.\d+", nccl_version) is None:
        raise UsageError(f"--nccl-version {nccl_version!r}: write a release such as 2.27.7")
    return None if kind == "auto" else kind


def _fixed(named: list[Script], nccl_version: str | None, kind: str | None, diff: str | None) -> list[Script]:
    """The scripts with names and values mended, written where they were; or the command ends with what would change,
    written to ``diff``."""
    from nccl_insight.advise.settings.lint import fix_text, lint_text
    from nccl_insight.cli.output import write_text

    fixed = [(path, fix_text(path, text, nccl_version, kind)) for path, text in named]
    if diff is not None:
        write_text(diff, "".join(map(_diff, named, fixed)))
        found = [f for path, text in fixed for f in lint_text(path, text, nccl_version, kind).findings]
        left = [f"{f.path}:{f.line} ({f.issue.variable or f.issue.name})" for f in found if f.severity.order < 2]
        if left:
            typer.echo(f"lint: left to you: {listed(left, 8)}; run without --diff to read why", err=True)
        raise typer.Exit(ExitCode.FINDINGS if named != fixed else ExitCode.OK)
    for (path, old), (_, new) in zip(named, fixed, strict=True):
        if path == "standard input":
            raise UsageError("lint --fix: standard input cannot be written; use --diff")
        if new != old:
            write_text(path, new)
    return fixed


def _diff(named: Script, fixed: Script) -> str:
    path, text = named
    rows = unified_diff(text.splitlines(keepends=True), fixed[1].splitlines(keepends=True), path, path)
    return "".join(row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n" for row in rows)


def _read(path: str) -> Script:
    from nccl_insight.inputs.spool import start_of

    with as_usage(f"{path}: cannot be read"):
        data = sys.stdin.buffer.read(_MAX_BYTES + 1) if path == "-" else start_of(Path(path), _MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise UsageError(f"{path}: larger than {_MAX_BYTES >> 20} MiB, which is no launch script")
    return "standard input" if path == "-" else path, data.decode("utf-8", errors="replace")
