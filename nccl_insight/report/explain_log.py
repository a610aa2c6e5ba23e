"""A log in plain words: who takes part, who talks to whom over what, which choices NCCL made and why."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from nccl_insight.base.units import plural
from nccl_insight.report import explain_how, explain_paths, explain_traces, explain_who
from nccl_insight.report.prose import safe
from nccl_insight.views.log import Log
from nccl_insight.views.log.inputs import Inputs, Trouble


def render(log: Log, width: int | None = None) -> str:
    """All sections as text, ending with a newline. ``width`` wraps; None leaves lines as they are."""
    return "\n\n".join(_text(title, lines, width) for title, lines in sections(log).items()) + "\n"


def sections(log: Log) -> dict[str, list[str]]:
    """The lines of the explanation by heading, headings without lines left out."""
    parts: dict[str, Iterable[str]] = {
        "Input": _inputs(log.inputs),
        "The job": explain_who.job(log.job),
        "Communicators": explain_who.communicators(log.communicators),
        "Network": explain_paths.network(log.network),
        "Who talks to whom over what": explain_paths.transports(log.transports),
        "Rings and trees": explain_paths.rings_and_trees(log.rings, log.trees),
        "Algorithms and channels": explain_how.algorithms(log.algorithms),
        "Settings in force": explain_how.settings_in_force(log.settings),
        "Start-up": explain_how.start_up(log.start_up),
        "Calls": explain_how.calls(log.calls or ()),
        "Steps": explain_traces.times(log.steps) if log.steps else (),
        "What mending would gain": explain_traces.mends(log.mends, log.replay) if log.replay else (),
        "Collectives": explain_traces.kinds(log.statistics or ()),
        "Trouble": _trouble(log.trouble) if log.trouble else (),
        "What the log cannot tell": explain_how.limits(log.limits) if log.limits else (),
    }
    told = ((title, list(lines)) for title, lines in parts.items())
    return {title: lines for title, lines in told if lines}


def _inputs(inputs: Inputs) -> Iterator[str]:
    for file in inputs.files:
        known = f", {file.nccl_lines:,} of them from NCCL" if file.nccl_lines else ""
        count = f", {plural(file.lines, 'line')}{known}" if file.lines else ""
        yield f"- {safe(file.path, 200)}: {safe(file.kind)}{count}"
    if inputs.total > len(inputs.files):
        yield f"  ... and {inputs.total - len(inputs.files):,} more files"


def _trouble(trouble: Trouble) -> Iterator[str]:
    first = safe(trouble.first, 200) if trouble.first is not None else "its text is not in the log"
    yield f"{plural(trouble.warnings, 'warning')} in the log, the first: {first}"
    yield "Run nccl-insight analyze for causes and what to do."


def _text(title: str, told: Sequence[str], width: int | None) -> str:
    lines = [title, "-" * len(title)]
    for line in told:
        if width is None:
            lines.append(line)
            continue
        indent = len(line) - len(line.lstrip())
        hang = " " * (indent + 2)
        lines += textwrap.wrap(line, max(width, 40), subsequent_indent=hang, break_on_hyphens=False) or [""]
    return "\n".join(lines)
