"""Ranks compared: start-up times by phase, outliers, NICs by GPU."""

from collections.abc import Iterable, Mapping, Sequence

from nccl_insight.base.model import Analysis
from nccl_insight.base.units import format_ranks
from nccl_insight.report.figures import base
from nccl_insight.report.figures.base import Figure, Trace, axis, dots, hatched, label, listing, plot, rounded, stripes
from nccl_insight.views.ranks import PHASES, InitTimes, Metric

_SHOWN = 40


def init_timing(analysis: Analysis, view: InitTimes) -> Figure:
    """Phases of communicator initialization, the slowest ranks first."""
    shown = view.slowest[:_SHOWN]
    names = [f"rank {r.rank}" for r in shown]
    data: list[Trace] = []
    for number, phase in enumerate(PHASES):
        if phase not in view.phases:
            continue
        values = [r.phases[phase] or 0.0 for r in shown]
        marker = hatched(base.SERIES[number], ("", "/", "", "x", "", ".", "", "\\")[number])
        data.append(stripes(_phase(phase), names, values, marker, "%{y}<br>%{fullData.name} %{x:.3f} s"))
    slowest = shown[0]
    known = {p: took for p in PHASES if (took := slowest.phases[p]) is not None}
    longest = max(known, key=lambda p: known[p], default=None)
    said = f"Half of the ranks were ready within {view.median_s:.2f} s; the slowest"
    said += f", rank {slowest.rank}, took {slowest.total_s:.2f} s"
    said += f", most of it in {_phase(longest)} ({known[longest]:.2f} s)" if longest else ""
    if view.total > len(shown):
        said += f". The plot shows the {len(shown)} slowest of {view.total:,} ranks"
    rows = tuple(
        (str(r.rank), f"{r.total_s:.3f}", *("" if (took := r.phases[p]) is None else f"{took:.3f}" for p in PHASES))
        for r in view.slowest
    )
    columns = "|".join(("Rank#", "Total s#", *(f"{_phase(p)}#" for p in PHASES)))
    return Figure(
        "init",
        "Where initialization spent its time",
        said + ".",
        listing(columns, rows, "Initialization by rank in seconds, slowest first", view.total),
        plot(data, barmode="stack", xaxis=axis("seconds"), yaxis=base.NAMES),
        "l" if len(shown) > 12 else "m",
    )


def _phase(column: str) -> str:
    return "topology detection" if column == "topo_s" else column.removesuffix("_s")


def _reach(metrics: Iterable[Mapping[int, float]]) -> list[float]:
    """The axis of the ranks: half a rank, or two hundredths of all, beside the first and the last."""
    ranks = [rank for values in metrics for rank in values]
    low, high = min(ranks), max(ranks)
    beside = max(0.5, (high - low) / 50)
    return [low - beside, high + beside]


def _points(metric: Metric, visible: bool) -> list[Trace]:
    """A metric by rank: usual ranks, outliers and the median, as far as there are any."""
    data: list[Trace] = []
    values, odd = metric.values, metric.outliers
    usual = [r for r in values if r not in set(odd)]
    for name, members, color, symbol in (("ranks", usual, base.BLUE, "circle"), ("outliers", odd, base.RED, "x")):
        if members:
            marker = {"color": color, "symbol": symbol, "size": 7 if symbol == "circle" else 11}
            hover = f"rank %{{x}}<br>%{{y}} ({label(metric.title)})"
            data.append(dots(name, members, rounded([values[r] for r in members]), marker, hover))
    ends, middle = [min(values), max(values)], rounded([metric.median, metric.median])
    curve: Trace = {"type": "scatter", "mode": "lines", "name": "median", "x": ends, "y": middle}
    median: Trace = {**curve, "line": {"dash": "dash", "color": base.SERIES[2], "width": 1.5}, "hoverinfo": "skip"}
    return [{**trace, "visible": visible} for trace in (*data, median)]


def comparison(analysis: Analysis, view: Sequence[Metric]) -> Figure:
    """One figure per rank for each metric, outliers marked."""
    data: list[Trace] = []
    masks: list[int] = []
    rows, odd_ones = [], []
    for number, metric in enumerate(view):
        shown = _points(metric, visible=number == 0)
        data += shown
        masks += [number] * len(shown)
        values, odd = metric.values, metric.outliers
        low, high = min(values.values()), max(values.values())
        figures = (f"{value:.4g}" for value in (metric.median, low, high))
        rows.append((metric.title, str(len(values)), *figures, format_ranks(odd) or "none"))
        if odd:
            at = f" (on {', '.join(metric.hosts)})" if 0 < len(metric.hosts) <= 3 else ""
            odd_ones.append(f"{metric.title}: rank{'s' if len(odd) > 1 else ''} {format_ranks(odd, 8)}{at}")
    said = "Ranks that stand out: " + "; ".join(odd_ones) if odd_ones else "By these measures no rank is an outlier"
    few = {"dtick": 1} if len(view[0].values) <= 16 else {}
    across = axis("rank", range=_reach(m.values for m in view), **few)
    return Figure(
        "ranks",
        "Ranks compared",
        said + ". An outlier is more than five robust standard deviations and 10% away from the median.",
        listing("Figure|Ranks#|Median#|Lowest#|Highest#|Outliers", rows, "Figures by rank"),
        plot(data, xaxis=across, yaxis={"automargin": True}),
        "m",
        wide=len(view[0].values) > 256,
        choices=tuple(m.title for m in view),
        choice_label="Compare",
        masks=tuple(masks),
    )
