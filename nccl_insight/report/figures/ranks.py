"""Ranks compared: start-up times by phase, outliers, NICs by GPU."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping

import polars as pl

from nccl_insight.facts.apart import apart, rank_metrics, varies
from nccl_insight.model import Analysis
from nccl_insight.report.figures.base import (
    BLUE,
    OVERLAY,
    RED,
    SERIES,
    Figure,
    Trace,
    axis,
    label,
    layout,
    rounded,
)
from nccl_insight.report.figures.nodes import place
from nccl_insight.tables.run import Run
from nccl_insight.units import format_ranks

PHASES = (
    "kernels_s",
    "alloc_s",
    "bootstrap_s",
    "allgathers_s",
    "topo_s",
    "graphs_s",
    "connections_s",
    "rest_s",
)
_SHOWN = 40


def init_timing(analysis: Analysis, run: Run) -> Figure | None:
    """Phases of communicator initialization, the slowest ranks first."""
    table = (
        run.lazy("init_timings")
        .filter(pl.col("total_s").is_not_null() & pl.col("rank").is_not_null())
        .sort("total_s", "rank", descending=[True, False])
        .unique("rank", keep="first", maintain_order=True)
        .collect()
    )
    if table.is_empty():
        return None
    shown = table.head(_SHOWN)
    names = [f"rank {r}" for r in shown["rank"]]
    data: list[Trace] = []
    for number, phase in enumerate(PHASES):
        if table[phase].is_null().all():
            continue
        values = shown[phase].fill_null(0.0).to_list()
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": _phase(phase),
                "y": names,
                "x": rounded(values),
                "marker": {
                    "color": SERIES[number],
                    "pattern": {
                        "shape": ("", "/", "", "x", "", ".", "", "\\")[number],
                        "solidity": 0.3,
                        **OVERLAY,
                    },
                },
                "hovertemplate": "%{y}<br>%{fullData.name} %{x:.3f} s<extra></extra>",
            }
        )
    middle = statistics.median(table["total_s"].to_list())
    slowest = table.row(0, named=True)
    longest = max((p for p in PHASES if slowest[p] is not None), key=lambda p: slowest[p], default=None)
    said = f"Half of the ranks were ready within {middle:.2f} s; the slowest"
    said += f", rank {slowest['rank']}, took {slowest['total_s']:.2f} s"
    said += f", most of it in {_phase(longest)} ({slowest[longest]:.2f} s)" if longest else ""
    if table.height > shown.height:
        said += f". The plot shows the {shown.height} slowest of {table.height:,} ranks"
    rows = tuple(
        (str(r["rank"]), f"{r['total_s']:.3f}", *("" if r[p] is None else f"{r[p]:.3f}" for p in PHASES))
        for r in table.head(50).iter_rows(named=True)
    )
    plot = {
        "data": data,
        "layout": layout(
            barmode="stack",
            xaxis=axis("seconds"),
            yaxis={"type": "category", "autorange": "reversed", "automargin": True},
        ),
    }
    columns = ("Rank", "Total s", *(_phase(p) for p in PHASES))
    return Figure(
        "init",
        "Where initialization spent its time",
        said + ".",
        columns,
        rows,
        table.height,
        tuple(range(len(columns))),
        "Initialization by rank in seconds, slowest first",
        plot,
        "l" if shown.height > 12 else "m",
    )


def _phase(column: str) -> str:
    return "topology detection" if column == "topo_s" else column.removesuffix("_s")


def _reach(metrics: Iterable[Mapping[int, float]]) -> list[float]:
    """The axis of the ranks: half a rank, or two hundredths of all, beside the first and the last."""
    ranks = [rank for values in metrics for rank in values]
    low, high = min(ranks), max(ranks)
    beside = max(0.5, (high - low) / 50)
    return [low - beside, high + beside]


def comparison(analysis: Analysis, run: Run) -> Figure | None:
    """One figure per rank for each metric, outliers marked."""
    metrics = {title: values for title, values in rank_metrics(run).items() if varies(values)}
    if not metrics:
        return None  # a flat line says nothing
    data: list[Trace] = []
    masks: list[int] = []
    rows, odd_ones = [], []
    where = place(run)
    judged = {title: apart(values) for title, values in metrics.items()}
    order = sorted(metrics, key=lambda t: (not judged[t][1], list(metrics).index(t)))
    for number, title in enumerate(order):
        values = metrics[title]
        middle, odd = judged[title]
        usual = [r for r in values if r not in set(odd)]
        for name, members, color, symbol in (("ranks", usual, BLUE, "circle"), ("outliers", odd, RED, "x")):
            if members:
                data.append(
                    {
                        "type": "scatter",
                        "mode": "markers",
                        "name": name,
                        "x": members,
                        "y": rounded([values[r] for r in members]),
                        "marker": {"color": color, "symbol": symbol, "size": 7 if symbol == "circle" else 11},
                        "hovertemplate": f"rank %{{x}}<br>%{{y}} ({label(title)})<extra></extra>",
                        "visible": number == 0,
                    }
                )
                masks.append(number)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": "median",
                "x": [min(values), max(values)],
                "y": rounded([middle, middle]),
                "line": {"dash": "dash", "color": SERIES[2], "width": 1.5},
                "hoverinfo": "skip",
                "visible": number == 0,
            }
        )
        masks.append(number)
        low, high = min(values.values()), max(values.values())
        rows.append(
            (
                title,
                str(len(values)),
                f"{middle:.4g}",
                f"{low:.4g}",
                f"{high:.4g}",
                format_ranks(odd) or "none",
            )
        )
        if odd:
            hosts = (
                sorted({where.hosts[where.node_of[r]] for r in odd if r in where.node_of}) if where else []
            )
            at = f" (on {', '.join(hosts[:3])})" if 0 < len(hosts) <= 3 else ""
            odd_ones.append(f"{title}: rank{'s' if len(odd) > 1 else ''} {format_ranks(odd, 8)}{at}")
    said = (
        "Ranks that stand out: " + "; ".join(odd_ones)
        if odd_ones
        else "By these measures no rank is an outlier"
    )
    plot = {
        "data": data,
        "layout": layout(
            xaxis=axis(
                "rank",
                range=_reach(metrics.values()),
                **({"dtick": 1} if len(metrics[order[0]]) <= 16 else {}),
            ),
            yaxis={"automargin": True},
        ),
    }
    return Figure(
        "ranks",
        "Ranks compared",
        said + ". An outlier is more than five robust standard deviations and 10 % away from the median.",
        ("Figure", "Ranks", "Median", "Lowest", "Highest", "Outliers"),
        tuple(rows),
        len(rows),
        (1, 2, 3, 4),
        "Figures by rank",
        plot,
        "m",
        wide=len(metrics[order[0]]) > 256,
        choices=tuple(order),
        choice_label="Compare",
        masks=tuple(masks),
    )
