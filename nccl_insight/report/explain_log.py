"""A log in plain words: who takes part, who talks to whom over what, which choices NCCL made and why."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import polars as pl

from nccl_insight.report import explain_how, explain_paths, explain_traces, explain_who
from nccl_insight.report.prose import Section, safe, section
from nccl_insight.tables.run import Run
from nccl_insight.tables.schema import is_loud
from nccl_insight.units import plural

_OF_LOGS = ("processes", "communicators", "ranks", "env", "connections", "errors")


def render(run: Run, width: int | None = None) -> str:
    """All sections as text, ending with a newline. ``width`` wraps; None leaves lines as they are."""
    return "\n\n".join(_text(part, width) for part in sections(run)) + "\n"


def sections(run: Run) -> tuple[Section, ...]:
    """The explanation in parts, those without content left out."""
    parts = (
        _inputs(run), explain_who.job(run), explain_who.communicators(run), explain_paths.network(run),
        explain_paths.transports(run), explain_paths.rings_and_trees(run), explain_how.algorithms(run),
        explain_how.settings_in_force(run), explain_how.start_up(run), explain_how.calls(run),
        explain_traces.times(run), explain_traces.waiting(run), explain_traces.occasions(run),
        explain_traces.kinds(run), _trouble(run),
        explain_how.limits(run) if any(run.has(n) for n in _OF_LOGS) else None,
    )  # fmt: skip
    return tuple(part for part in parts if part is not None and part.lines)


def _inputs(run: Run) -> Section:
    def lines() -> Iterator[str]:
        table = run.table("inputs")
        for path, kind, count, ours in (
            table.select("path", "kind", "lines", "nccl_lines").head(6).iter_rows()
        ):
            known = f", {ours:,} of them from NCCL" if ours else ""
            yield f"- {safe(path, 200)}: {safe(kind)}" + (
                f", {plural(count, 'line')}{known}" if count else ""
            )
        if table.height > 6:
            yield f"  ... and {table.height - 6:,} more files"

    return section("Input", lines())


def _trouble(run: Run) -> Section | None:
    loud = run.table("errors").filter(is_loud(pl.col("level")) & (pl.col("level") != "DIAG"))
    if loud.is_empty():
        return None
    texts = loud.get_column("text").drop_nulls()
    first = safe(texts.item(0), 200) if texts.len() else "its text is not in the log"
    count = plural(loud.height, "warning")
    more = "Run nccl-insight analyze for causes and what to do."
    return section("Trouble", [f"{count} in the log, the first: {first}", more])


def _text(part: Section, width: int | None) -> str:
    lines = [part.title, "-" * len(part.title)]
    for line in part.lines:
        if width is None:
            lines.append(line)
            continue
        indent = len(line) - len(line.lstrip())
        hang = " " * (indent + 2)
        lines += textwrap.wrap(line, max(width, 40), subsequent_indent=hang, break_on_hyphens=False) or [""]
    return "\n".join(lines)
