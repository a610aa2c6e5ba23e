"""The terminal's view of an analysis, as compilers print: cause, findings with their lines, what to add to see more."""

import os
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Final

from nccl_insight.base.model import Analysis, Evidence, Finding, Role, Severity, Step
from nccl_insight.base.units import plural
from nccl_insight.report import story, words
from nccl_insight.report.sanitize import one_line

_STYLE: Final = {
    "FAIL": "1;31", "error": "1;31", "WARN": "1;33", "warning": "1;33", "OK": "1;32", "NOT JUDGED": "1;35",
    "INCONCLUSIVE": "1;34", "note": "1;34", "dim": "2", "bold": "1", "command": "36", "path": "36",
}  # fmt: skip
_MORE_SHOWN: Final = 3
_OUTPUTS: Final = 3
_ONLY_READ: Final = re.compile(r"[0-9,]+ lines?")
_OUTPUTS_ALONE: Final = 20
_NARROWEST: Final = 40
_MOST_ROWS: Final = 4
_JOB_LINES: Final = 3


def render(
    analysis: Analysis,
    *,
    color: bool = False,
    verbosity: int = 0,
    width: int | None = None,
    base: Path | None = None,
    links: bool = False,
) -> str:
    """The analysis for people, ending with a newline.

    Args:
        analysis: what to show.
        color: whether to use ANSI colors; severity is always a word first.
        verbosity: -2 nothing, -1 the verdict line, 0 normal, 1 and more all evidence and explanations.
        width: wrap at this column; None never wraps, so that piped output does not depend on a terminal.
        base: paths below this directory are shown relative to it.
        links: whether the terminal follows hyperlinks (OSC 8) to files.
    """
    if verbosity <= -2:
        return ""
    page = _Page(color, width, base, links and color)
    if verbosity == -1:
        return page.verdict_line(analysis) + "\n"
    lines = [*page.verdict(analysis)]
    lines += page.facts(analysis, verbosity)
    loud = [f for f in analysis.findings if f.severity is not Severity.INFO or verbosity > 0]
    for finding in loud:
        lines += ["", *page.finding(finding, verbosity)]
    quiet = [f for f in analysis.findings if f not in loud]
    if quiet:
        lines += ["", *page.notes(quiet)]
    footer = [*page.footer(analysis, verbosity)]
    lines += ["", *footer] if footer else []
    return "\n".join(lines) + "\n"


class _Page:
    """How words, paths and commands are written for one terminal."""

    def __init__(self, color: bool, width: int | None, base: Path | None, links: bool) -> None:
        self._color = color
        self._width = None if width is None else max(width, _NARROWEST)
        self._base = base
        self._links = links

    def _paint(self, text: str, style: str) -> str:
        code = _STYLE.get(style)
        return f"\x1b[{code}m{text}\x1b[0m" if self._color and code and text else text

    def _wrap(self, text: str, first: str, rest: str) -> list[str]:
        """Words only: a path or a command is never broken."""
        if self._width is None:
            return [first + text]
        return textwrap.wrap(
            text,
            self._width,
            initial_indent=first,
            subsequent_indent=rest,
            break_on_hyphens=False,
            break_long_words=False,
        ) or [first.rstrip()]

    def _place(self, evidence: Evidence) -> str:
        shown = self._path(evidence.input)
        text = f"{shown}:{evidence.line}" if evidence.line else shown
        painted = self._paint(text, "path")
        if not self._links or not evidence.line or not re.fullmatch(r"[\w./~+@%=,:-]+", evidence.input):
            return painted
        target = Path(os.path.abspath(evidence.input)).as_uri()
        return f"\x1b]8;;{target}\x1b\\{painted}\x1b]8;;\x1b\\"

    def _path(self, path: str) -> str:
        shown = one_line(path, 300)
        if self._base is not None and shown.startswith(f"{self._base}{os.sep}"):
            return shown[len(str(self._base)) + 1 :]
        return shown

    def verdict(self, analysis: Analysis) -> list[str]:
        """The word, the cause in words; then the job and how much was understood."""
        word = analysis.verdict
        said = words.cause(analysis)
        lines = self._wrap(said, f"{word}  ", " " * (len(word) + 2))
        lines[0] = self._paint(word, word) + self._paint(lines[0][len(word) :], "bold")
        if facts := words.counted_facts(analysis):
            lines += [self._paint(line, "dim") for line in self._wrap(facts, "  ", "  ")]
        return lines

    def verdict_line(self, analysis: Analysis) -> str:
        """The verdict in one line, never wrapped."""
        word = analysis.verdict
        return "  ".join(filter(None, (self._paint(word, word), words.cause(analysis), words.facts_line(analysis))))

    def facts(self, analysis: Analysis, verbosity: int = 0) -> Iterator[str]:
        """How far the job got, why nothing can be said, what was not one job."""
        if story.told(analysis):
            yield from self._story(analysis)
        elif analysis.progress is not None:
            yield from self._labelled("progress", analysis.progress.line)
        if analysis.status == "ok":
            for line in analysis.summary[:_JOB_LINES]:
                yield from self._labelled("job", line)
        for reason in analysis.reasons[1:4] if analysis.status == "inconclusive" else ():
            yield from self._labelled("also", reason)
        for part in analysis.jobs:
            yield from self._labelled("judged" if part.judged else "earlier", words.job_part(part))
        yield from self._inputs(analysis)
        yield from self._outputs(analysis, verbosity)

    def _story(self, analysis: Analysis) -> Iterator[str]:
        """What happened in which order, the cause painted."""
        moments = story.first_screen(analysis.story)
        on = story.day(moments)
        yield "  " + self._paint(f"{story.TITLE.lower()}{f' ({on})' if on else ''}:", "dim")
        told = story.rows(moments)
        wide = max(len(row.clock) for row in told)
        for row in told:
            head = f"    {row.clock:<{wide}}  " if wide else "    "
            place = f" ({row.place})" if row.place else ""
            rest = " " * (len(head) + 11)
            lines = self._wrap(f"{row.text}{place}", f"{head}{row.kind:<9}  ", rest)
            kind = self._paint(f"{row.kind:<9}", "error" if row.guilty else "dim")
            yield from (f"{head}{kind}{lines[0][len(head) + 9 :]}", *lines[1:])

    def _outputs(self, analysis: Analysis, verbosity: int) -> Iterator[str]:
        """What host tools say; more of it with ``-v``, or where there is nothing else."""
        whole = verbosity > 0 or not analysis.coverage.nccl_lines
        telling = [o for o in analysis.outputs if whole or not _ONLY_READ.fullmatch(o.says)]
        folder = words.common_folder(i.path for i in analysis.inputs)
        for output in telling[: _OUTPUTS_ALONE if whole else _OUTPUTS]:
            host = f" on {one_line(output.host, 80)}" if output.host else ""
            place = f"{self._path(output.input.removeprefix(folder))}:{output.line}"
            yield from self._labelled("read", f"{output.tool}{host} ({place}): {one_line(output.says, 400)}")
        left = len(analysis.outputs) - min(len(telling), _OUTPUTS_ALONE if whole else _OUTPUTS)
        if left > 0:
            more = plural(left, "more output" if telling else "output") + " of host tools"
            more += "" if verbosity > 0 else " (-v shows them)"
            yield from [f"    {'':<8}and {more}"] if telling else self._labelled("read", more)

    def _inputs(self, analysis: Analysis) -> Iterator[str]:
        """What each input that gave nothing was taken for; of many inputs only these."""
        odd = [i for i in analysis.inputs if i.kind in ("unknown", "unreadable") and i.taken_for]
        if not odd or (analysis.status != "not_judged" and all(i.kind == "unknown" for i in odd)):
            return
        for item in odd[:8]:
            yield from self._labelled("input", f"{self._path(item.path)}: {one_line(item.taken_for, 200)}")
            if item.command:
                yield f"    {'':<8}  {self._paint(one_line(item.command, 500), 'command')}"
        if len(odd) > 8:
            yield f"    and {len(odd) - 8} more inputs that gave nothing"

    def _labelled(self, label: str, text: str) -> list[str]:
        lines = self._wrap(one_line(text, 1000), f"  {label + ':':<10}", " " * 12)
        start = 2 + len(label) + 1
        lines[0] = "  " + self._paint(f"{label}:", "dim") + lines[0][start:]
        return lines

    def finding(self, finding: Finding, verbosity: int) -> Iterator[str]:
        """The headline, the place, the line itself, what was expected, what to look at and what to change."""
        severity = finding.severity.word
        head = f"{severity}[{finding.code}] {finding.name}:"
        lines = self._wrap(one_line(finding.title, 500), head + " ", "    ")
        rest = lines[0][len(head) :]
        lines[0] = (
            self._paint(f"{severity}[{finding.code}]", severity) + self._paint(f" {finding.name}:", "bold") + rest
        )
        yield from lines
        evidence = words.primary(finding)
        place = self._place(evidence) if evidence else ""
        others = len(finding.evidence) - 1 if verbosity <= 0 else 0
        who = words.affected(finding)
        extra = ", ".join(
            filter(
                None,
                (
                    f"{others} more with -v" if others > 0 else "",
                    who if any(part not in finding.title for part in who.split(" on ")) else "",
                ),
            )
        )
        if place or extra:
            taken = len(f"   --> {self._path(evidence.input)}:{evidence.line}   {extra}") if evidence else 0
            apart = bool(extra) and self._width is not None and taken > self._width
            yield f"   {self._paint('-->', 'dim')} {place if apart else '   '.join(filter(None, (place, extra)))}"
            if apart:
                yield from self._wrap(extra, "       ", "       ")
        if evidence and evidence.text and (evidence.line or evidence.text not in finding.title):
            bar = f"    {self._paint('|', 'dim')}  "
            yield from (bar + row for row in self._rows(one_line(evidence.text, words.EXCERPT)))
        yield from self._because(finding)
        for step in words.steps(finding):
            yield from self._step(step)
        if verbosity > 0:
            yield from self._more_of(finding)
        yield f"    {self._paint('=', 'dim')} {self._paint('more:', 'dim')} nccl-insight explain {finding.code}"

    def _because(self, finding: Finding) -> Iterator[str]:
        observed, expected = words.observed_expected(finding)
        if observed:
            news = [part for part in observed.split("; ") if part not in finding.title]
            yield from self._detail("found", "; ".join(news)) if news else ()
        if expected:
            yield from self._detail("expected", expected)
        if finding.role is Role.CASCADE and finding.caused_by:
            yield from self._detail("cause", f"follows from {one_line(finding.caused_by, 80)}")
        if finding.confidence.value != "high":
            yield from self._detail("confidence", finding.confidence.value)

    def _detail(self, label: str, text: str) -> list[str]:
        first = f"    = {label}: "
        lines = self._wrap(text, first, " " * len(first))
        lines[0] = f"    {self._paint('=', 'dim')} {self._paint(label + ':', 'dim')} " + lines[0][len(first) :]
        return lines

    def _step(self, step: Step) -> list[str]:
        if not step.is_command:
            return self._detail("do", step.text)
        where = f"   {self._paint('(' + step.where + ')', 'dim')}" if step.where else ""
        line = f"    {self._paint('=', 'dim')} {self._paint(step.label + ':', 'dim')} "
        whole = f"{line}{self._paint(step.text, 'command')}{where}"
        if self._width is not None and where and len(f"    = {step.label}: {step.text}   ({step.where})") > self._width:
            return [
                f"{line}{self._paint(step.text, 'command')}",
                *self._wrap(f"({step.where})", " " * (8 + len(step.label)), " " * (8 + len(step.label))),
            ]
        return [whole]

    def _more_of(self, finding: Finding) -> Iterator[str]:
        if finding.explanation:
            yield from self._detail("about", one_line(finding.explanation, 2000))
        for item in finding.evidence:
            yield f"    = log: {self._place(item)}: {one_line(item.text, words.EXCERPT)}"
        for source in finding.sources:
            yield f"    = source: {one_line(source, 300)}"

    def _rows(self, text: str) -> list[str]:
        """A line of the log on as few rows as hold it, cut between words where it is very long."""
        if self._width is None:
            return [text]
        return textwrap.wrap(text, self._width - 7, max_lines=_MOST_ROWS, placeholder=" ...", break_on_hyphens=False)

    def notes(self, notes: list[Finding]) -> Iterator[str]:
        """Notes: the harmless ones in one line, the others each in one."""
        plain = [f for f in notes if f.finding_class.value == "I"]
        for finding in (f for f in notes if f not in plain):
            evidence = words.primary(finding)
            place = f" ({self._path(evidence.input)}:{evidence.line})" if evidence and evidence.line else ""
            lines = self._wrap(one_line(finding.title, 300) + place, f"note[{finding.code}] {finding.name}: ", "    ")
            yield self._paint(f"note[{finding.code}]", "note") + lines[0][len(f"note[{finding.code}]") :]
            yield from lines[1:]
        if plain:
            names = ", ".join(f"{f.name} ({f.code})" for f in plain[:6]) + (", ..." if len(plain) > 6 else "")
            yield from self._wrap(f"{plural(len(plain), 'harmless note')} (-v shows them): {names}", "", "    ")

    def footer(self, analysis: Analysis, verbosity: int) -> Iterator[str]:
        """What was silenced or not understood; what to add to see more."""
        for item in analysis.suppressed:
            until = f", until {one_line(item.until, 40)}" if item.until else ""
            name = f"{item.finding.code} {item.finding.name}"
            yield from self._wrap(f"Suppressed: {name} ({one_line(item.reason, 200)}{until})", "", "  ")
        coverage = analysis.coverage
        if coverage.unknown or coverage.torn:
            counts = [f"{plural(coverage.unknown, 'NCCL line')} of unknown kind"] if coverage.unknown else []
            counts += [f"{plural(coverage.torn, 'torn line')}"] if coverage.torn else []
            yield from self._wrap("Not understood: " + ", ".join(counts) + ".", "", "  ")
        shown = analysis.more if verbosity > 0 else analysis.more[:_MORE_SHOWN]
        if shown:
            yield self._paint("To see more:", "bold")
            for more in shown:
                yield f"  {self._paint(one_line(more.add, 300), 'command')}"
                yield from self._wrap(f"-> {one_line(more.enables, 300)}", "      ", "         ")
        if verbosity > 0:
            for group in words.not_judged_groups(analysis.not_judged):
                yield from self._wrap(f"could not run: {', '.join(group.names)}: {group.reason}", "  ", "    ")
        for note in analysis.notes:
            yield from self._wrap("Note: " + one_line(note, 500), "", "  ")


def common_base(analysis: Analysis) -> Path | None:
    """The current directory, if an input stands below it."""
    try:
        here = Path.cwd()
    except FileNotFoundError:
        return None
    inside = any(PurePath(i.path).is_absolute() and PurePath(i.path).is_relative_to(here) for i in analysis.inputs)
    return here if inside else None
