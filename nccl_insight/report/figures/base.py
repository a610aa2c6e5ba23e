"""What a figure is, and the colors and symbols that all figures share."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Final

from nccl_insight.base.data import dataclass, field
from nccl_insight.report.sanitize import one_line
from nccl_insight.views.listed import LISTED

Trace = dict[str, Any]

# Okabe and Ito's palette, distinguishable with every common color blindness; on both themes.
BLUE: Final = "#3b82c4"
SKY: Final = "#56b4e9"
GREEN: Final = "#16a37b"
ORANGE: Final = "#e69f00"
RED: Final = "#d55e00"
PURPLE: Final = "#b56fa0"
YELLOW: Final = "#d9c400"
GREY: Final = "#7d8797"
SERIES: Final = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED, YELLOW, GREY)
# A pattern over a bar's color, so that neighbors differ without color too.
OVERLAY: Final[dict[str, Any]] = {"fillmode": "overlay", "fgcolor": "#ffffff", "fgopacity": 0.55, "size": 7}
MAX_ROWS: Final = LISTED
# An axis of names, the first at the top.
NAMES: Final[dict[str, Any]] = {"type": "category", "autorange": "reversed", "automargin": True}


@dataclass(frozen=True)
class Table:
    """What a figure shows, in rows; ``total``: how many there would be uncapped, ``numeric``: columns of numbers."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    total: int = 0
    numeric: tuple[int, ...] = ()
    caption: str = ""


def listing(columns: str, rows: Sequence[tuple[str, ...]], caption: str, total: int | None = None) -> Table:
    """The first rows under ``Name|Number#``, where ``#`` marks a column of numbers; ``total``: where there are more."""
    heads = columns.split("|")
    numeric = tuple(n for n, head in enumerate(heads) if head.endswith("#"))
    shown = tuple(head.removesuffix("#") for head in heads)
    return Table(shown, tuple(rows[:MAX_ROWS]), len(rows) if total is None else total, numeric, caption)


@dataclass(frozen=True)
class Figure:
    """One figure: its sentence and table carry every fact, the plot (plotly data and layout) shows it.

    ``choices`` name what a select box switches between; ``masks`` gives for each trace the choice that it
    belongs to, -1 for all. ``size`` (s, m, l) is the height of the plot, ``wide`` gives it the whole row.
    ``svg`` is a static drawing (:mod:`nccl_insight.report.figures.svg`), there without scripts, too.
    """

    id: str
    title: str
    summary: str
    table: Table = Table()
    plot: dict[str, Any] | None = None
    size: str = "m"
    wide: bool = False
    choices: tuple[str, ...] = ()
    choice_label: str = "Show"
    masks: tuple[int, ...] = field(default=())
    svg: str = ""


def label(text: object, limit: int = 60) -> str:
    """Text for a plot: plotly reads a subset of HTML and ``%{...}`` templates, so both are made inert."""
    return escape(one_line(str(text), limit), quote=False).replace("%{", "% {")


def layout(**settings: Any) -> dict[str, Any]:
    """Common layout; colors and fonts are added by the page, which knows the theme."""
    base: dict[str, Any] = {
        "margin": {"l": 60, "r": 20, "t": 34, "b": 48},
        "hovermode": "closest",
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "xaxis": {"automargin": True},
        "yaxis": {"automargin": True},
    }
    for key, value in settings.items():
        base[key] = {**base[key], **value} if isinstance(base.get(key), dict) and isinstance(value, dict) else value
    return base


def plot(data: Sequence[Trace], **settings: Any) -> dict[str, Any]:
    """A plot of traces with the common layout."""
    return {"data": [*data], "layout": layout(**settings)}


def hatched(color: str, shape: str) -> dict[str, Any]:
    """What fills a bar."""
    return {"color": color, "pattern": {"shape": shape, "solidity": 0.3, **OVERLAY}}


def stripes(name: str, names: Sequence[str], values: Sequence[float | None], marker: Trace, hover: str) -> Trace:
    """Horizontal bars of one series; ``hover``: what is said of a bar."""
    bar: Trace = {"type": "bar", "orientation": "h", "name": name, "y": [*names], "x": rounded(values)}
    return {**bar, "marker": marker, "hovertemplate": f"{hover}<extra></extra>"}


def dots(name: str, x: Sequence[Any], y: Sequence[Any], marker: Trace, hover: str) -> Trace:
    """Points of one series; ``hover``: what is said of a point."""
    marks: Trace = {"type": "scatter", "mode": "markers", "name": name, "x": [*x], "y": [*y], "marker": marker}
    return {**marks, "hovertemplate": f"{hover}<extra></extra>"}


def grid(name: str, x: list[str], y: list[str], z: list[list[float | None]], unit: str, hover: str) -> Trace:
    """Values of pairs as colors, the darkest for 0."""
    heat: Trace = {"type": "heatmap", "name": name, "x": x, "y": y, "z": z, "zmin": 0, "colorscale": "Cividis"}
    return {**heat, "colorbar": {"title": {"text": unit}}, "hovertemplate": f"{hover}<extra></extra>"}


def bars(names: Sequence[str], values_ns: Sequence[float], color: str | list[str], hover: str = "") -> Trace:
    """Horizontal bars of times in milliseconds; ``hover``: what is said behind the time."""
    bar: Trace = {"type": "bar", "orientation": "h", "y": [*names], "x": rounded([ns / 1e6 for ns in values_ns])}
    shown = f"%{{y}}: %{{x}} ms{hover}<extra></extra>"
    return {**bar, "showlegend": False, "marker": {"color": color}, "hovertemplate": shown}


def axis(title: str, **settings: Any) -> dict[str, Any]:
    """An axis with a title."""
    return {"title": {"text": title}, "automargin": True, **settings}


def cells(rows: Iterable[Iterable[object]]) -> tuple[tuple[str, ...], ...]:
    """Rows as text; None is ``unknown``, floats have three significant places."""
    return tuple(tuple(_cell(v) for v in row) for row in rows)


def _cell(value: object) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return one_line(str(value), 200)


def rounded(values: Sequence[float | None], digits: int = 4) -> list[float | None]:
    """Numbers with few digits, to keep the file small and its bytes stable."""
    return [None if v is None else float(f"{v:.{digits}g}") for v in values]
