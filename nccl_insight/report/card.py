"""The verdict as one picture for a chat or a ticket: 1200 x 630, SVG, complete in itself."""

import re
from collections.abc import Iterator, Sequence
from html import escape
from textwrap import wrap
from typing import Final

from nccl_insight.base.model import Analysis, Finding, Moment
from nccl_insight.report import story, words
from nccl_insight.report.figures.base import Figure
from nccl_insight.report.html.page import asset
from nccl_insight.report.sanitize import one_line

_WIDE, _TALL, _EDGE = 1200, 630, 48
_MOMENTS = 5
_LEFT = 690
"""Width of the words beside a narrow figure."""
_SMALLEST = 0.7
"""The scale below which the letters of a figure are too small to read."""
_NAMED: Final = re.compile(r"(--[a-z-]{1,40}):([^;{}<]{1,200})")
_INK: Final = {"FAIL": "#b3192d", "WARN": "#8a4b00", "OK": "#11704a", "INCONCLUSIVE": "#1f4fb8"}
_SANS: Final = "system-ui,-apple-system,Segoe UI,Helvetica,Arial,sans-serif"
_STYLE: Final = (
    f"text{{font-family:{_SANS}}}.m{{font-family:ui-monospace,Menlo,Consolas,monospace}}"
    ".title{font-weight:700;fill:#161b26}.muted{fill:#4d5666}.dark{fill:#161b26}.stamp{fill:#fff;font-weight:700}"
)


def render(analysis: Analysis, figure: Figure | None = None) -> str:
    """The card: verdict, cause, the line that says so, what happened in order, what to do next.

    ``figure``: the drawing that proves the cause, shown beside the words or, where it is wide, in place of the order.
    """
    word = analysis.verdict
    ink = _INK.get(word, "#4d5666")
    first = next(iter(analysis.causes), None)
    told = story.told(analysis)
    fits = figure is not None and first is not None and not (figure.wide and told)
    drawing = _colored(figure.svg) if figure is not None and fits else ""
    beside = bool(drawing) and not (figure is not None and figure.wide)
    box = (_LEFT + 70, 100, _WIDE - _LEFT - 110, 230) if beside else (_EDGE, 300, _WIDE - 2 * _EDGE, 190)
    if not _legible(drawing, *box[2:]):
        drawing, beside = "", False
    parts = [
        f'<rect width="{_WIDE}" height="{_TALL}" fill="#fff"/><rect width="{_WIDE}" height="10" fill="{ink}"/>',
        f'<rect x="{_EDGE}" y="38" width="{30 + 20 * len(word)}" height="46" rx="9" fill="{ink}"/>',
        _text(_EDGE + 15, 71, word, 28, "stamp"),
        _text(_EDGE + 52 + 20 * len(word), 69, words.job_line(analysis), 22, "muted"),
    ]
    lines, size = _title(words.cause(analysis), 33 if beside else 52)
    parts += [_text(_EDGE, 132 + n * size * 1.25, line, size, "title") for n, line in enumerate(lines)]
    y = 132 + len(lines) * size * 1.25
    parts += _evidence(first, y, 68 if beside else 112) if first is not None else ()
    if drawing:
        parts.append(_inside(drawing, *box))
    if told:
        parts += _order(story.first_screen(analysis.story, _MOMENTS), ink)
    parts += _next(analysis, first)
    # The rules of the page's style for drawings.
    rules = "".join(line for line in asset("report.css").splitlines() if line.startswith(".draw")) if drawing else ""
    tool = f"{analysis.tool.name} {analysis.tool.version}"
    parts.append(_text(_WIDE - _EDGE, _TALL - 18, tool, 16, "muted", extra='text-anchor="end"'))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDE}" height="{_TALL}" viewBox="0 0 {_WIDE} {_TALL}" '
        f'role="img" aria-label="{escape(f"{word}: {words.cause(analysis)}", quote=True)}">'
        f"<style>{_STYLE}{_colored(rules)}</style>{''.join(parts)}</svg>\n"
    )


def _text(x: float, y: float, content: str, size: float, css: str = "dark", *, extra: str = "") -> str:
    place = f'x="{x:g}" y="{y:g}" font-size="{size:g}"'
    return f'<text {place} class="{css}" {extra}>{escape(one_line(content, 300))}</text>'


def _title(text: str, room: int) -> tuple[list[str], int]:
    """The cause in at most three lines, smaller where it is long."""
    size = 34 if len(text) <= 2 * room else 28
    return wrap(text, room * 34 // size, max_lines=3, placeholder=" ..."), size


def _evidence(finding: Finding, y: float, room: int) -> Iterator[str]:
    line = words.primary(finding)
    if line is None:
        return
    yield _text(_EDGE, y + 12, one_line(words.location(line), 200).rpartition("/")[2], 16, "m muted")
    for n, part in enumerate(wrap(one_line(line.text, 400), room, max_lines=2, placeholder=" ...")):
        yield _text(_EDGE, y + 38 + 24 * n, part, 16, "m dark")


def _order(moments: Sequence[Moment], ink: str) -> Iterator[str]:
    """What happened on a line from left to right, the cause marked; not to scale."""
    rows, y = story.rows(moments), 372
    each = (_WIDE - 2 * _EDGE) / max(1, len(rows))
    yield f'<path d="M{_EDGE} {y}H{_WIDE - _EDGE}" stroke="#c3c9d4" stroke-width="4"/>'
    for n, row in enumerate(rows):
        x, color = _EDGE + each * n + 9, ink if row.guilty else "#8a93a3"
        yield f'<circle cx="{x:g}" cy="{y}" r="{11 if row.guilty else 8}" fill="{color}"/>'
        yield _text(x - 9, y - 22, row.clock or "no clock", 17, "muted")
        yield _text(
            x - 9, y + 34, row.kind, 18, extra=f'font-weight="700" style="fill:{color if row.guilty else "#161b26"}"'
        )
        for at, part in enumerate(wrap(row.text, max(14, int(each / 10)), max_lines=3, placeholder=" ...")):
            yield _text(x - 9, y + 58 + 20 * at, part, 16)


def _next(analysis: Analysis, finding: Finding | None) -> Iterator[str]:
    steps = words.steps(finding) if finding is not None else ()
    step = next((s for s in steps if s.is_command), next(iter(steps), None))
    said = step.text if step is not None else analysis.more[0].add if analysis.more else ""
    if not said:
        return
    where = f"next: {step.label}" + (f", {step.where}" if step.where else "") if step is not None else "to see more"
    y = _TALL - 112
    yield f'<rect x="{_EDGE}" y="{y}" width="{_WIDE - 2 * _EDGE}" height="70" rx="9" fill="#eef0f4"/>'
    yield _text(_EDGE + 18, y + 26, words.shortened(where, 110), 16, "muted")
    size = min(18, max(13, 18 * 98 // len(said)))  # a command that is cut cannot be typed
    yield _text(_EDGE + 18, y + 54, words.shortened(said, 98 * 18 // size), size, "m dark")


def _legible(drawing: str, wide: float, tall: float) -> bool:
    size = re.search(r' width="([0-9.]+)" height="([0-9.]+)"', drawing)
    return size is not None and min(wide / float(size[1]), tall / float(size[2])) >= _SMALLEST


def _inside(drawing: str, x: float, y: float, wide: float, tall: float) -> str:
    """A drawing of the page, as large as its place allows."""
    nested = re.sub(
        r' width="[0-9.]+" height="[0-9.]+"',
        f' x="{x:g}" y="{y:g}" width="{wide:g}" height="{tall:g}"',
        drawing,
        count=1,
    )
    return nested.replace("<svg ", '<svg preserveAspectRatio="xMidYMid meet" ', 1)


def _colored(text: str) -> str:
    """With the page's light colors in place of their names, which few programs but browsers look up."""
    sheet = asset("report.css")
    colors = dict(_NAMED.findall(sheet[sheet.index("{") + 1 : sheet.index("}")].replace('"', "'")))
    return re.sub(r"var\((--[a-z-]{1,40})\)", lambda name: colors.get(name[1], name[0]), text)
