"""Charts as static drawings: the page shows them at once, in previews, on paper and without scripts; plotly's figure of
the same data takes their place when it comes into view."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from nccl_insight.base.data import dataclass
from nccl_insight.report.figures import svg
from nccl_insight.report.figures.base import BLUE, GREY

_WIDE, _NARROW, _TOP, _NAME = 1100.0, 560.0, 12.0, 30
_HEIGHT: Final = {"s": 190.0, "m": 260.0, "l": 380.0}
_ROW, _TICK, _CELL = 13.0, 62.0, 30.0
_LEVELS, _DOTS = 5, 500
Plot = Mapping[str, Any]


@dataclass(frozen=True)
class _Axis:
    """Where values stand between two places in pixels; ``names`` are the categories, in their order from ``start``."""

    start: float
    end: float
    names: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    given: tuple[tuple[float, str], ...] = ()

    @property
    def band(self) -> float:
        """Pixels of one category."""
        return abs(self.end - self.start) / max(1, len(self.names))

    def at(self, value: Any) -> float:
        """The place of a value."""
        if self.names:
            share = (self.names.index(str(value)) + 0.5) / len(self.names)
        else:
            low, high, number = (self._scaled(v) for v in (self.low, self.high, float(value)))
            share = (number - low) / (high - low or 1.0)
        return self.start + (self.end - self.start) * share

    def _scaled(self, value: float) -> float:
        return math.log10(max(value, 1e-12)) if self.log else value

    def ticks(self) -> list[tuple[float, str]]:
        """Places and words of the marks, as many as there is room for."""
        room = _TICK if self.end > self.start else 2 * _ROW
        if self.names:
            every = math.ceil((room if self.end > self.start else _ROW) / self.band)
            return [(self.at(name), name) for name in self.names[::every]]
        if self.given:
            shown = [(v, word) for v, word in self.given if self.low <= v <= self.high]
            every = math.ceil(len(shown) * room / max(1.0, abs(self.end - self.start)))
            return [(self.at(v), word) for v, word in shown[:: max(1, every)]]
        if self.log:
            powers = range(math.floor(self._scaled(self.low)), math.ceil(self._scaled(self.high)) + 1)
            return [(self.at(10.0**p), f"{10.0**p:,g}") for p in powers if self.low <= 10.0**p <= self.high]
        span = self.high - self.low or 1.0
        unit = 10.0 ** math.floor(math.log10(span / 5))
        step = next(unit * f for f in (1, 2, 5, 10) if span / (unit * f) <= 6)
        first = math.ceil(self.low / step - 1e-9)
        return [(self.at(n * step), f"{n * step:,.6g}") for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


def chart(plot: Plot, title: str, size: str = "m", *, wide: bool = False) -> str:
    """A drawing of a figure in plotly's form: scatter, bar, box and heatmap traces on linear, log or named axes."""
    data = [t for t in plot["data"] if t.get("visible", True)]
    layout = plot["layout"]
    if data and data[0]["type"] == "heatmap":
        return _heatmap(data[0], title)
    horizontal = any(t.get("orientation") == "h" for t in data)
    rows = _names(data, "y", layout) if horizontal else ()
    left = svg.room(rows, _NAME) if rows else 66.0
    width = _WIDE if wide else _NARROW
    height = max(_HEIGHT[size], _ROW * len(rows)) if not rows else max(60.0, min(24.0, 600 / len(rows)) * len(rows))
    x = _axis(data, layout, "x", left, width - 16)
    y = _axis(data, layout, "y", _TOP + height, _TOP)
    parts = list(_frame(x, y, layout))
    parts += _bars([t for t in data if t["type"] == "bar"], x, y, layout.get("barmode", "group"))
    for trace in data:
        parts += (
            _box(trace, x, y) if trace["type"] == "box" else _points(trace, x, y) if trace["type"] == "scatter" else ()
        )
    for shape in layout.get("shapes", ()):
        if shape.get("xref") == "paper":
            parts.append(svg.line(x.start, y.at(shape["y0"]), x.end, y.at(shape["y1"]), "rule dashes"))
    keys, bottom = _keys(data, left, _TOP + height + 56, width)
    return svg.drawing(width, bottom, title, [*parts, *keys])


def _names(data: Sequence[Plot], key: str, layout: Plot) -> tuple[str, ...]:
    """The categories of an axis from its start: bottom or left."""
    axis = layout.get(f"{key}axis", {})
    values = [v for t in data for v in t.get(key, ())]
    if axis.get("type") != "category" and not any(isinstance(v, str) for v in values):
        return ()
    names = tuple(dict.fromkeys(map(str, (*axis.get("categoryarray", ()), *values))))
    return names[::-1] if axis.get("autorange") == "reversed" else names


def _axis(data: Sequence[Plot], layout: Plot, key: str, start: float, end: float) -> _Axis:
    if names := _names(data, key, layout):
        return _Axis(start, end, names)
    settings = layout.get(f"{key}axis", {})
    log = settings.get("type") == "log"
    values = [*_values(data, layout, key), *([0.0] if settings.get("rangemode") == "tozero" else [])]
    values = [v for v in values if v > 0 or not log] or [1.0]
    low, high = settings.get("range") or (min(values), max(values))
    if not settings.get("range"):
        low, high = (
            (low / 1.3, high * 1.3)
            if log
            else (low - (0.04 * (high - low) if low else 0.0), high + 0.04 * (high - low))
        )
    given = tuple(zip(settings.get("tickvals", ()), settings.get("ticktext", ()), strict=False))
    return _Axis(start, end, (), low, high if high > low else low + 1.0, log, given)


def _values(data: Sequence[Plot], layout: Plot, key: str) -> list[float]:
    """All numbers that an axis has to reach."""
    bars = [t for t in data if t["type"] == "bar"]
    values = [float(v) for t in data for k in (key, "lowerfence", "upperfence") for v in t.get(k, ()) if _number(v)]
    if bars:
        values += [0.0, *(n for t in bars for n in _ends(t, key)), *_stacked(bars, key, layout)]
    return values + [float(s[f"{key}0"]) for s in layout.get("shapes", ()) if s.get("xref") == "paper" and key == "y"]


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _ends(trace: Plot, key: str) -> Iterator[float]:
    base = trace.get("base") or [0.0] * len(trace.get(key, ()))
    return (float(b) + float(v) for b, v in zip(base, trace.get(key, ()), strict=False) if _number(v))


def _stacked(bars: Sequence[Plot], key: str, layout: Plot) -> Iterable[float]:
    if layout.get("barmode") != "stack":
        return ()
    other = "y" if key == "x" else "x"
    sums: dict[Any, float] = {}
    for trace in bars:
        for name, value in zip(trace[other], trace[key], strict=True):
            sums[name] = sums.get(name, 0.0) + (value or 0.0)
    return sums.values()


def _frame(x: _Axis, y: _Axis, layout: Plot) -> Iterator[str]:
    """Grid, marks and titles of both axes."""
    for at, word in x.ticks():
        yield svg.line(at, y.end, at, y.start, "rule", 1) if not x.names else ""
        yield svg.text(at, y.start + 17, word, "t c s", _NAME)
    for at, word in y.ticks():
        yield svg.line(x.start, at, x.end, at, "rule", 1) if not y.names else ""
        yield svg.text(x.start - 8, at + 4, word, "t e s", _NAME)
    words = [layout.get(f"{k}axis", {}).get("title", {}).get("text", "") for k in "xy"]
    said = words[0] + (f"; upward: {words[1]}" if words[1] and words[0] else words[1])
    yield svg.text((x.start + x.end) / 2, y.start + 36, said, "t c s", 90)


def _bars(bars: Sequence[Plot], x: _Axis, y: _Axis, mode: str) -> Iterator[str]:
    reached: dict[str, float] = {}
    for number, trace in enumerate(bars):
        flat = trace.get("orientation") == "h"
        names, values = (trace["y"], trace["x"]) if flat else (trace["x"], trace["y"])
        across, along = (y, x) if flat else (x, y)
        share = trace.get("width", 0.8) if mode != "group" else 0.8 / len(bars)
        thick = max(1.5, across.band * share)
        shift = across.band * share * (number - (len(bars) - 1) / 2) if mode == "group" else 0.0
        base = trace.get("base") or [None] * len(values)
        colors = trace["marker"]["color"]
        paths: dict[str, list[str]] = {}
        for n, (name, value, start) in enumerate(zip(names, values, base, strict=True)):
            begin = start if start is not None else reached.get(str(name), 0.0) if mode == "stack" else 0.0
            reached[str(name)] = begin + (value or 0.0)
            a, b = along.at(begin), along.at(begin + (value or 0.0))
            side = across.at(name) - thick / 2 + shift
            box = (min(a, b), side, abs(b - a), thick) if flat else (side, min(a, b), thick, abs(b - a))
            color = colors if isinstance(colors, str) else colors[n]
            paths.setdefault(color, []).append("M{:.5g} {:.5g}h{:.4g}v{:.4g}h-{:.4g}z".format(*box, box[2]))
        yield from (_path("".join(points), fill=color) for color, points in paths.items())


def _path(
    points: str, *, fill: str = "none", line: str = "", width: float = 1.5, dash: str = "", round_: bool = False
) -> str:
    drawn = f' stroke="{line}" stroke-width="{width:g}"' if line else ""
    drawn += f' stroke-dasharray="{dash}"' if dash else ""
    drawn += ' stroke-linecap="round"' if round_ else ""
    return f'<path d="{points}" fill="{fill}"{drawn}/>'


def _box(trace: Plot, x: _Axis, y: _Axis) -> Iterator[str]:
    """Quantiles of each name: whiskers, the box between the quartiles, the median."""
    half = min(8.0, 0.35 * y.band)
    keys = ("lowerfence", "q1", "median", "q3", "upperfence")
    for name, *values in zip(trace["y"], *(trace[k] for k in keys), strict=True):
        middle, (low, q1, median, q3, high) = y.at(name), (x.at(v) for v in values)
        yield _path(f"M{low:.5g} {middle:.5g}H{high:.5g}", line=GREY)
        yield _path(
            f"M{q1:.5g} {middle - half:.5g}H{max(q3, q1 + 1):.5g}v{2 * half:.4g}H{q1:.5g}z",
            fill=trace["marker"]["color"],
        )
        yield _path(f"M{median:.5g} {middle - half:.5g}v{2 * half:.4g}", line="#fff", width=2)


def _points(trace: Plot, x: _Axis, y: _Axis) -> Iterator[str]:
    pairs = [(x.at(a), y.at(b)) for a, b in zip(trace["x"], trace["y"], strict=True) if a is not None and b is not None]
    line, marker = trace.get("line", {}), trace.get("marker", {})
    if "lines" in trace["mode"] and line.get("width", 1.5) and pairs:
        dash = "" if line.get("dash", "solid") == "solid" else "3 4"
        points = "M" + "L".join(f"{a:.5g} {b:.5g}" for a, b in pairs)
        yield _path(points, line=line.get("color", BLUE), width=line.get("width", 1.5), dash=dash)
    if "markers" in trace["mode"]:
        size, color = marker.get("size", 7) / 2, marker.get("color", BLUE)
        if marker.get("symbol") in ("x", "line-ns-open"):
            form = "m-{0:g}-{0:g}l{1:g} {1:g}m0-{1:g}l-{1:g} {1:g}" if marker["symbol"] == "x" else "m0-{0:g}v{1:g}"
            marks = "".join(f"M{a:.5g} {b:.5g}" + form.format(size, 2 * size) for a, b in pairs)
            yield _path(marks, line=color, width=2.5)
        else:
            dots = "".join(f"M{a:.4g} {b:.4g}h0" for a, b in pairs[:: math.ceil(len(pairs) / _DOTS)])
            yield _path(dots, line=color, width=2 * size, round_=True)


def _keys(data: Sequence[Plot], left: float, top: float, width: float) -> tuple[list[str], float]:
    """The names of the traces with their colors, in as many rows as they need, and where they end."""
    entries: dict[str, str] = {}
    for trace in data:
        color = trace.get("marker", {}).get("color") or trace.get("line", {}).get("color") or BLUE
        if trace.get("name") and trace.get("showlegend", True):
            entries.setdefault(trace["name"], color if isinstance(color, str) else BLUE)
    parts, x, y = [], left, top
    for name, color in entries.items():
        took = 34 + 6.4 * len(svg.clip(name, 44))
        if x > left and x + took > width:
            x, y = left, y + 20
        parts += [_path(f"M{x:g} {y - 10:g}h13v13h-13z", fill=color), svg.text(x + 19, y, name, "t s", 44)]
        x += took
    return parts, y + (12 if entries else -10)


def _heatmap(trace: Plot, title: str) -> str:
    """A grid of values in five levels, with the numbers where there is room."""
    grid: Sequence[Sequence[float | None]] = trace["z"]
    values = [v for row in grid for v in row if v is not None]
    most = max(values, default=1.0) or 1.0
    left = svg.room(trace["y"], 14)
    cell = max(9.0, min(_CELL * 1.5, 760 / max(1, len(grid), len(trace["x"]))))
    edges = list(accumulate([cell] * len(grid), initial=_TOP + 20))
    short = [str(name).rsplit(" ", 1)[-1] for name in trace["x"]] if cell >= _CELL else []
    parts = [svg.text(left + cell * (n + 0.5), _TOP + 12, name, "t c s", 6) for n, name in enumerate(short)]
    for n, (name, row) in enumerate(zip(trace["y"], grid, strict=True)):
        if n % math.ceil(_ROW / cell) == 0:
            parts.append(svg.text(left - 8, edges[n] + cell / 2 + 4, name, "t e s", 14))
        for m, value in enumerate(row):
            if value is None:
                continue
            level = 1 + min(_LEVELS - 1, int(_LEVELS * value / most))
            at = left + cell * m
            parts.append(svg.rect(at, edges[n], cell - 1, cell - 1, f"heat h{level}", f"{value:g}", radius=0))
            if cell >= _CELL:
                parts.append(svg.text(at + cell / 2, edges[n] + cell / 2 + 4, f"{value:.0f}", "t c s"))
    side = left + cell * len(trace["x"])
    parts.append(svg.text(left, edges[-1] + 18, f"{trace['name']}; darkest: {most:,.4g}", "t s"))
    return svg.drawing(max(side, left + 300) + 10, edges[-1] + 28, title, parts)
