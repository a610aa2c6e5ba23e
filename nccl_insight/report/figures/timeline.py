"""Time of each rank: the timeline of collectives and what a step goes into."""

from __future__ import annotations

from typing import Any

import polars as pl

from nccl_insight.model import Analysis
from nccl_insight.report.figures.base import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    OVERLAY,
    RED,
    SERIES,
    Figure,
    Trace,
    axis,
    layout,
    rounded,
)
from nccl_insight.tables.run import Run
from nccl_insight.units import format_bytes, format_ns, plural

_BARS = 1200
_RANKS = 32
_HOVER = "%{fullData.name} %{customdata}<br>%{y}: %{base:.3f} ms, %{x:.3f} ms long<extra></extra>"


def timeline(analysis: Analysis, run: Run) -> Figure | None:
    """Collectives of each rank over time, the part that no computation covers hatched."""
    table = run.table("collectives").filter(
        pl.col("start_ns").is_not_null() & (pl.col("duration_ns") > 0) & pl.col("rank").is_not_null()
    )
    if table.is_empty():
        return None
    every = table.height
    ranks = sorted(set(table["rank"]))[:_RANKS]
    table = table.filter(pl.col("rank").is_in(ranks))
    step = None
    if table["step"].drop_nulls().n_unique() > 1:
        steps = sorted(table["step"].drop_nulls().unique())
        step = steps[len(steps) // 2]
        table = table.filter(pl.col("step") == step)
    table = table.sort("start_ns", "rank")
    shown = table.head(_BARS)
    origin = int(str(shown["start_ns"].min()))
    shown = shown.with_columns(
        ((pl.col("start_ns") - origin) / 1e6).alias("at_ms"),
        (pl.col("duration_ns") / 1e6).alias("long_ms"),
        (pl.col("exposed_ns").fill_null(0).clip(0) / 1e6).alias("exposed_ms"),
    )
    data: list[Trace] = []
    ops = shown["op"].cast(pl.String).fill_null("Other")
    for number, op in enumerate(sorted(set(ops))):
        part = shown.filter(ops == op)
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": op,
                "y": [f"rank {r}" for r in part["rank"]],
                "base": rounded(part["at_ms"].to_list(), 7),
                "x": rounded(part["long_ms"].to_list()),
                "customdata": [
                    format_bytes(s) if s is not None else "unknown size" for s in part["size_bytes"]
                ],
                "marker": {"color": SERIES[number % len(SERIES)]},
                "width": 0.7,
                "hovertemplate": _HOVER,
            }
        )
    exposed = shown.filter(pl.col("exposed_ms") > 0)
    if exposed.height:
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": "exposed part",
                "y": [f"rank {r}" for r in exposed["rank"]],
                "base": rounded((exposed["at_ms"] + exposed["long_ms"] - exposed["exposed_ms"]).to_list(), 7),
                "x": rounded(exposed["exposed_ms"].to_list()),
                "width": 0.26,
                "marker": {"color": "#111827", "pattern": {"shape": "/", "solidity": 0.3, **OVERLAY}},
                "hovertemplate": "%{y}<br>%{x:.3f} ms not covered by computation<extra></extra>",
            }
        )
    totals = (
        table.group_by("rank")
        .agg(
            pl.len().alias("n"),
            (pl.col("duration_ns").sum()).alias("comm"),
            pl.col("exposed_ns").sum().alias("exposed"),
            pl.col("duration_ns").max().alias("longest"),
        )
        .sort("rank")
    )
    what = f"step {step}" if step is not None else "the trace"
    said = f"{plural(shown.height, 'collective')} of {plural(len(ranks), 'rank')} in {what} (of {every:,} in all)"
    said += ". Hatched: not covered by computation"
    if (total := int(totals["comm"].sum())) and table["exposed_ns"].drop_nulls().len():
        said += f", {100 * int(totals['exposed'].sum()) / total:.0f} % of the communication time"
    rows = tuple(
        (str(r), str(n), format_ns(c), format_ns(e) if e is not None else "unknown", format_ns(x))
        for r, n, c, e, x in totals.iter_rows()
    )
    plot = {
        "data": data,
        "layout": layout(
            barmode="overlay",
            xaxis=axis("ms since the first collective shown"),
            yaxis={
                "type": "category",
                "categoryorder": "array",
                "categoryarray": [f"rank {r}" for r in reversed(ranks)],
                "automargin": True,
            },
        ),
    }
    return Figure(
        "timeline",
        "Timeline",
        said + ".",
        ("Rank", "Collectives", "Communication", "Exposed", "Longest"),
        rows[:50],
        len(rows),
        (0, 1, 2, 3, 4),
        f"Communication of {what} by rank",
        plot,
        "l" if len(ranks) > 8 else "m",
        wide=True,
    )


def steps(analysis: Analysis, run: Run) -> Figure | None:
    """What a step's time goes into, the mean of each rank."""
    columns = ("duration_ns", "compute_ns", "comm_ns", "exposed_comm_ns", "memcpy_ns", "idle_ns")
    table = (
        run.lazy("steps")
        .filter(pl.col("rank").is_not_null())
        .group_by("rank")
        .agg(pl.len().alias("n"), pl.col(*columns).mean())
        .sort("rank")
        .collect()
    )
    if table.is_empty() or table["duration_ns"].is_null().all():
        return None
    shown = table.head(64)
    names = [f"rank {r}" for r in shown["rank"]]
    parts: tuple[tuple[str, str, str, str], ...] = (
        ("computation", "compute_ns", BLUE, ""),
        ("communication, exposed", "exposed_comm_ns", RED, "/"),
        ("copies", "memcpy_ns", ORANGE, "."),
        ("idle", "idle_ns", GREY, ""),
    )
    data: list[Trace] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": names,
            "x": rounded((shown[column].fill_null(0) / 1e6).to_list()),
            "marker": {"color": color, "pattern": {"shape": shape, "solidity": 0.3, **OVERLAY}},
            "hovertemplate": "%{y}<br>%{fullData.name} %{x} ms<extra></extra>",
        }
        for name, column, color, shape in parts
        if not shown[column].is_null().all()
    ]
    data.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "whole step",
            "y": names,
            "x": rounded((shown["duration_ns"] / 1e6).to_list()),
            "marker": {"symbol": "line-ns-open", "size": 14, "color": GREEN, "line": {"width": 3}},
            "hovertemplate": "%{y}<br>step %{x} ms<extra></extra>",
        }
    )
    mean: dict[str, Any] = {c: table[c].mean() for c in columns}
    said = f"A step takes {format_ns(mean['duration_ns'])} on average over {plural(table.height, 'rank')}"
    shares = [
        f"{name} {100 * mean[c] / mean['duration_ns']:.0f} %"
        for name, c, _, _ in parts
        if mean[c] is not None and mean["duration_ns"]
    ]
    said += ": " + ", ".join(shares) if shares else ""
    rows = tuple(
        (str(r), f"{n:,}", *("unknown" if v is None else format_ns(v) for v in rest))
        for r, n, *rest in table.head(50).iter_rows()
    )
    plot = {
        "data": data,
        "layout": layout(
            barmode="stack",
            xaxis=axis("ms per step"),
            yaxis={"type": "category", "autorange": "reversed", "automargin": True},
        ),
    }
    return Figure(
        "steps",
        "Where a step's time goes",
        said + ".",
        ("Rank", "Steps", "Step", "Computation", "Communication", "Exposed", "Copies", "Idle"),
        rows,
        table.height,
        tuple(range(8)),
        "Mean step by rank",
        plot,
        "m",
    )
