"""``rules``, ``explain`` and ``config show``: the catalog of diagnoses and the settings in force, offline."""

from __future__ import annotations

import datetime
import json
import os
import sys
import textwrap
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from nccl_insight.base.errors import UsageError
from nccl_insight.cli.choices import diagnoses, option

if TYPE_CHECKING:
    from nccl_insight.engine.policy import Policy
    from nccl_insight.rules import Rule

# More of standard input than any pasted line needs.
_PASTED = 1 << 16
_CAUSES = 12
_QUOTED = 4
_CLASSES = {
    "F": "stops the job", "P": "slows the job", "I": "worth knowing", "S": "consequence of another fault",
    "L": "about the input",
}  # fmt: skip


def explanation(rule: Rule, width: int | None = None, color: bool = False) -> str:
    """The documentation of a diagnosis as ``explain`` prints it, wrapped at a width, headings painted."""
    return "\n".join(_laid_out(_explanation(rule).split("\n"), width, color))


def _laid_out(lines: list[str], width: int | None, color: bool) -> Iterator[str]:
    """Paragraphs of plain words wrapped anew; lists, indented and marked lines stay as they are."""
    paragraph: list[str] = []

    def flush() -> Iterator[str]:
        if paragraph and width is not None:
            yield from textwrap.wrap(" ".join(paragraph), width, break_long_words=False, break_on_hyphens=False)
        else:
            yield from paragraph
        paragraph.clear()

    for number, line in enumerate(lines):
        under = lines[number + 1] if number + 1 < len(lines) else ""
        heading = len(under) > 2 and set(under) == {"-"}
        rule_line = len(line) > 2 and set(line) == {"-"}
        if not line or heading or rule_line or line[0] in " *|" or number == 0:
            yield from flush()
            painted = f"\x1b[1m{line}\x1b[0m" if color and (heading or number == 0) else line
            indent = line[: len(line) - len(line.lstrip())]
            yield painted if width is None or len(indent) < _QUOTED else "\n".join(_wrapped(line, width, indent))
        else:
            paragraph.append(line)
    yield from flush()


def _explanation(rule: Rule) -> str:
    from nccl_insight.base.pages import headed
    from nccl_insight.base.units import listed

    kind = rule.finding_class.value
    head = (
        f"{rule.code} {rule.name}\nseverity {rule.severity.word}, confidence {rule.confidence.value}, action "
        f"{rule.action.value}, class {kind} ({_CLASSES[kind]})"
    )
    parts = [head, rule.doc.strip()]
    if rule.caused_by:
        parts.append(headed("Usually after", listed(rule.caused_by, _CAUSES)))
    if rule.thresholds:
        rows = "\n".join(f"{key} = {value:g}" for key, value in sorted(rule.thresholds.items()))
        parts.append(headed(f"Thresholds ([thresholds.{rule.name}])", rows))
    return "\n\n".join(parts)


def catalog(rules: list[Rule], format_: str, width: int | None = None) -> str:
    """The list of diagnoses as text, markdown or JSON; for a terminal text has a head and fits its width."""
    from nccl_insight.report.markdown import table

    if format_ == "json":
        rows = [
            {
                "code": r.code, "name": r.name, "class": r.finding_class.value, "severity": r.severity.value,
                "confidence": r.confidence.value, "action": r.action.value, "needs": list(r.needs),
                "summary": r.summary, "thresholds": dict(r.thresholds),
            }
            for r in rules
        ]  # fmt: skip
        return json.dumps(rows, indent=1)
    if format_ == "md":
        cells = [(r.code, r.name, r.finding_class.value, r.severity.word, r.summary) for r in rules]
        return "\n".join(table(("code", "name", "class", "severity", "summary"), cells)).rstrip()
    room = max((len(r.name) for r in rules), default=0)
    listed = [line for r in rules for line in _row(r, room, width)]
    if width is None or not rules:
        return "\n".join(listed)
    key = ", ".join(f"{letter} {words}" for letter, words in _CLASSES.items())
    head = f"{'code':<5}  {'name':<{room}}  class  severity  what"
    return "\n".join([head, *listed, "", *_wrapped(f"class: {key}", width, "       ")])


def _row(rule: Rule, room: int, width: int | None) -> list[str]:
    """One line per diagnosis; where that is too wide, its summary stands under it."""
    head = f"{rule.code}  {rule.name:<{room}}  {rule.finding_class.value:<5}  {rule.severity.word:<8}"
    if width is None:
        word = rule.severity.word
        return [f"{rule.code}  {rule.name:<{room}}  {rule.finding_class.value}  {word:<7}  {rule.summary}"]
    if len(head) + 2 + len(rule.summary) <= width:
        return [f"{head}  {rule.summary}"]
    return [head.rstrip(), *_wrapped(f"       {rule.summary}", width, "       ")]


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(text, max(width, 40), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def settings_in_force(policy: Policy) -> list[tuple[str, str, str]]:
    """Setting, value and origin of every setting of the policy."""
    fail_on = policy.fail_on.value if policy.fail_on else "never"
    rows = [
        ("select", "all" if policy.select is None else ", ".join(sorted(policy.select)), "select"),
        ("fail-on", fail_on, "fail_on"),
        ("min-confidence", policy.min_confidence.value, "min_confidence"),
        ("min-coverage", f"{policy.min_coverage:g}", "min_coverage"),
        ("redact", str(policy.redact).lower(), "redact"),
    ]
    for entry in policy.ignore:
        until = f" until {entry.until}" if entry.until else ""
        match = f" matching {entry.match!r}" if entry.match else ""
        expired = " (expired)" if entry.expired(policy.today) else ""
        rows.append((f"ignore {entry.name}", f"{entry.reason}{match}{until}{expired}", "ignore"))
    rows += [(f"severity {name}", level.value, "severity") for name, level in sorted(policy.severity.items())]
    rows += [
        (f"thresholds {name} {key}", f"{value:g}", "thresholds")
        for name, values in sorted(policy.thresholds.items())
        for key, value in sorted(values.items())
    ]
    return [(name, value, policy.origins.get(origin, "default")) for name, value, origin in rows]


def _start(names: list[str], family: str, logic: bool, into: Path, used: dict[str, str]) -> Iterator[str]:
    """Writes the files of a new diagnosis and says what is left to do; nothing is ever overwritten.

    Raises UsageError: not one name and a family, or no source tree there.
    """
    from nccl_insight.rules.skeleton import FAMILIES, skeleton

    if len(names) != 1 or not family:
        raise UsageError(f"give a name and a family: rules new NAME --family {'|'.join(FAMILIES)}")
    files = skeleton(names[0], family, used, logic)
    if not (into / "nccl_insight" / "rules").is_dir():
        raise UsageError(f"{into}: not the folder of the source tree (it has no nccl_insight/rules)")
    for path in (into / name for name in files):
        if path.exists():
            raise UsageError(f"{path} is there already")
    for name, text in files.items():
        path = into / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as out:
            out.write(text)
        yield f"wrote {path}"
    yield f"next: `//! diagnosis: {names[0]}` and a role above its messages in grammars/*.lark (docs/grammar.md)"
    yield "      fill in what stands between < and >; pytest tests/test_rule_fixtures.py tests/base/test_pages.py"


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(rules)
    app.command()(explain)
    config = typer.Typer(help="Settings of nccl-insight.", no_args_is_help=True, rich_markup_mode=None)
    app.add_typer(config, name="config")
    config.callback()(settings_root)
    config.command("show")(show)


def rules(
    patterns: list[str] | None = option("rules [CODE|NAME|GLOB]...", None, autocompletion=diagnoses),
    format_: Literal["text", "md", "json"] = option("rules --format", "text"),
    family: str = option("rules --family", ""),
    logic: bool = option("rules --logic", False),
    into: Path = option("rules --into", Path()),
) -> None:
    """List the diagnoses: code, name, class, severity, summary. Or start a new one: `rules new NAME`."""
    from nccl_insight.cli.output import terminal_width
    from nccl_insight.engine.policy.config import resolve
    from nccl_insight.rules import discover

    known = list(discover())
    if patterns and patterns[0] == "new":
        for line in _start(patterns[1:], family, logic, into, {rule.code: rule.name for rule in known}):
            typer.echo(line)
        return
    if patterns:
        wanted = {name for pattern in patterns for name in resolve(pattern)}
        known = [rule for rule in known if rule.name in wanted]
    typer.echo(catalog(known, format_, terminal_width()))


def explain(names: list[str] = option("explain CODE|NAME|LINE...", ..., autocompletion=diagnoses)) -> None:
    """Say what a diagnosis or a pasted line of a log means, whether it is harmless, and what to do."""
    from nccl_insight.cli.output import terminal_width, use_color
    from nccl_insight.engine.policy.config import resolve
    from nccl_insight.rules import discover

    text = sys.stdin.read(_PASTED) if names == ["-"] else " ".join(names)
    by_name = {rule.name: rule for rule in discover()}
    try:
        wanted = dict.fromkeys(name for given in names for name in resolve(given))
    except UsageError:
        from nccl_insight.report.line import explain_text  # reads lines, which a code does not need

        told = explain_text(text)
        if told is None or get_close_matches(text, by_name, 1, 0.8):  # a name with a slip, not part of a message
            raise
        typer.echo(told)
        return
    width, color = terminal_width(), use_color("auto")
    text = "\n\n\n".join(explanation(by_name[name], width, color) for name in wanted)
    typer.echo(text, color=color)


def settings_root() -> None:
    """Settings of nccl-insight."""


def show(
    file: Path | None = option("config show --config", None), isolated: bool = option("config show --isolated", False)
) -> None:
    """Print the settings in force and where each comes from."""
    from nccl_insight.cli.output import working_directory
    from nccl_insight.engine.policy import load_policy

    policy = load_policy(
        config=file, isolated=isolated, cwd=working_directory(), environ=os.environ, today=datetime.date.today()
    )
    rows = settings_in_force(policy)
    width = max(len(name) for name, _, _ in rows)
    typer.echo("\n".join(f"{name:<{width}}  {value}   [{origin}]" for name, value, origin in rows))
