"""A log in plain words: who takes part, who talks to whom over what, which choices NCCL made and why."""

import textwrap

from nccl_insight.base.units import plural
from nccl_insight.report import explain_how, explain_paths, explain_traces, explain_who
from nccl_insight.report.prose import Section, safe, section
from nccl_insight.views.log import Log
from nccl_insight.views.log.inputs import Inputs, Trouble


def render(log: Log, width: int | None = None) -> str:
    """All sections as text, ending with a newline. ``width`` wraps; None leaves lines as they are."""
    return "\n\n".join(_text(part, width) for part in sections(log)) + "\n"


def sections(log: Log) -> tuple[Section, ...]:
    """The explanation in parts, those without content left out."""
    parts = (
        _inputs(log.inputs),
        explain_who.job(log.job),
        explain_who.communicators(log.communicators),
        explain_paths.network(log.network),
        explain_paths.transports(log.transports),
        explain_paths.rings_and_trees(log.rings, log.trees),
        explain_how.algorithms(log.algorithms),
        explain_how.settings_in_force(log.settings),
        explain_how.start_up(log.start_up),
        explain_how.calls(log.calls) if log.calls is not None else None,
        explain_traces.times(log.steps) if log.steps else None,
        explain_traces.waiting(log.waiting) if log.waiting else None,
        explain_traces.occasions(log.longest_waits) if log.longest_waits else None,
        explain_traces.kinds(log.statistics) if log.statistics else None,
        _trouble(log.trouble) if log.trouble else None,
        explain_how.limits(log.limits) if log.limits else None,
    )
    return tuple(part for part in parts if part is not None and part.lines)


def _inputs(inputs: Inputs) -> Section:
    lines = []
    for file in inputs.files:
        known = f", {file.nccl_lines:,} of them from NCCL" if file.nccl_lines else ""
        count = f", {plural(file.lines, 'line')}{known}" if file.lines else ""
        lines.append(f"- {safe(file.path, 200)}: {safe(file.kind)}{count}")
    if inputs.total > len(inputs.files):
        lines.append(f"  ... and {inputs.total - len(inputs.files):,} more files")
    return section("Input", lines)


def _trouble(trouble: Trouble) -> Section:
    first = safe(trouble.first, 200) if trouble.first is not None else "its text is not in the log"
    count = plural(trouble.warnings, "warning")
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
