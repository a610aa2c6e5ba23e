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
    """Collectives of each rank (of each GPU where no rank is known) over time, what no computation covers as a line."""
    table = run.table("collectives").filter(pl.col("start_ns").is_not_null() & (pl.col("duration_ns") > 0))
    by = "rank" if table["rank"].null_count() < table.height else "device"
    table = table.drop_nulls(by).with_columns(pl.col(by).alias("rank"))
    if table.is_empty():
        return None
    who = "rank" if by == "rank" else "GPU"
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
                "y": [f"{who} {r}" for r in part["rank"]],
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
                "y": [f"{who} {r}" for r in exposed["rank"]],
                "base": rounded((exposed["at_ms"] + exposed["long_ms"] - exposed["exposed_ms"]).to_list(), 7),
                "x": rounded(exposed["exposed_ms"].to_list()),
                "width": 0.12,
                "marker": {"color": "#b3192d"},
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
    said = (
        f"{plural(shown.height, 'collective')} of {plural(len(ranks), who)} in {what} (of {every:,} in all)"
    )
    said += ". Red line: not covered by computation"
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
                "categoryarray": [f"{who} {r}" for r in reversed(ranks)],
                "automargin": True,
            },
        ),
    }
    return Figure(
        "timeline",
        "Timeline",
        said + ".",
        (who.capitalize() if by == "rank" else who, "Collectives", "Communication", "Exposed", "Longest"),
        rows[:50],
        len(rows),
        (0, 1, 2, 3, 4),
        f"Communication of {what} by {who}",
        plot,
        "l" if len(ranks) > 8 else "m",
        wide=True,
    )


def gaps(analysis: Analysis, run: Run) -> Figure | None:
    """Where each GPU's time went in a trace without steps, and the longest times between its collectives."""
    table = run.table("collectives").filter(pl.col("start_ns").is_not_null() & (pl.col("duration_ns") > 0))
    if table.is_empty() or table["rank"].null_count() < table.height:
        return None
    ends = table.drop_nulls("device").sort("device", "start_ns").with_columns(
        end=(pl.col("start_ns") + pl.col("duration_ns")).cum_max().shift(1).over("device"),
        before=pl.col("op").cast(pl.String).shift(1).over("device"),
    )  # fmt: skip
    between = ends.with_columns(gap=pl.col("start_ns") - pl.col("end")).filter(pl.col("gap") > 0)
    if between.is_empty():
        return None
    longest = between.sort("gap", "device", descending=[True, False]).head(50)
    origin = int(str(table["start_ns"].min()))
    first = longest.row(0, named=True)
    said = (
        f"{plural(between.height, 'gap')} between collectives; the longest, on GPU {first['device']}, takes "
    )
    said += f"{format_ns(first['gap'])}, half of them up to {format_ns(float(str(between['gap'].median())))}"
    for row in run.table("steps").drop_nulls("device").head(4).iter_rows(named=True):
        whole = row["duration_ns"]
        if whole and row["idle_ns"] is not None:
            said += f". GPU {row['device']}: idle {row['idle_ns'] / whole:.0%} of {format_ns(whole)}"
    rows = tuple(
        (
            str(r["device"]),
            format_ns((r["end"] or origin) - origin),
            format_ns(r["gap"]),
            str(r["before"]),
            str(r["op"]),
        )
        for r in longest.iter_rows(named=True)
    )
    shown = longest.head(12)
    names = [f"GPU {d}, at {format_ns(e - origin)}" for d, e in shown.select("device", "end").iter_rows()]
    bars: Trace = {
        "type": "bar", "orientation": "h", "y": names, "x": rounded((shown["gap"] / 1e6).to_list()),
        "showlegend": False, "marker": {"color": GREY},
        "hovertemplate": "%{y}: %{x} ms without a collective<extra></extra>",
    }  # fmt: skip
    plot = {
        "data": [bars],
        "layout": layout(
            xaxis=axis("ms between two collectives"),
            yaxis={"type": "category", "autorange": "reversed", "automargin": True},
        ),
    }
    return Figure(
        "gaps", "Longest gaps between collectives", said + ".", ("GPU", "From", "Gap", "After", "Before"), rows,
        between.height, (0, 1, 2), "Gaps, the longest first", plot, "m",
    )  # fmt: skip


def steps(analysis: Analysis, run: Run) -> Figure | None:
    """What a step's time goes into, the mean of each rank (of each GPU where no rank is known)."""
    columns = ("duration_ns", "compute_ns", "comm_ns", "exposed_comm_ns", "memcpy_ns", "idle_ns")
    source = run.table("steps")
    by_device = source["rank"].null_count() == source.height
    who = "GPU" if by_device else "rank"
    table = (
        source.lazy()
        .with_columns(rank=pl.col("device") if by_device else pl.col("rank"))
        .filter(pl.col("rank").is_not_null())
        .group_by("rank")
        .agg(pl.len().alias("n"), pl.col(*columns).mean())
        .sort("rank")
        .collect()
    )
    if table.is_empty() or table["duration_ns"].is_null().all():
        return None
    shown = table.head(64)
    if shown["compute_ns"].null_count() == shown.height and shown["comm_ns"].null_count() == shown.height:
        return None  # a trace of the CPU only: nothing to take apart
    names = [f"{who} {r}" for r in shown["rank"]]
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
    said = f"A step takes {format_ns(mean['duration_ns'])} on average over {plural(table.height, who)}"
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
        (
            who.capitalize() if who == "rank" else who,
            "Steps",
            "Step",
            "Computation",
            "Communication",
            "Exposed",
            "Copies",
            "Idle",
        ),
        rows,
        table.height,
        tuple(range(8)),
        f"Mean step by {who}",
        plot,
        "m",
    )
