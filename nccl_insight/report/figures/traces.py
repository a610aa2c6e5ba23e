"""Figures of traces and benchmarks: timeline, durations, bandwidth, stragglers, steps."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, TypeAlias

import polars as pl

from nccl_insight.facts.expected import efficiency, expected
from nccl_insight.facts.straggler import arrivals
from nccl_insight.model import Analysis
from nccl_insight.report.figures.base import (
    BLUE,
    GREY,
    RED,
    SERIES,
    Figure,
    Trace,
    axis,
    label,
    layout,
    rounded,
)
from nccl_insight.rules._links import expected_busbw
from nccl_insight.tables.run import Run
from nccl_insight.units import format_bytes, format_gbps, format_ns, plural

_Expected: TypeAlias = tuple[int, float, tuple[float, float], str]
"""Size in bytes, expected busbw in GB/s, the band around it, and what says so."""


def durations(analysis: Analysis, run: Run) -> Figure | None:
    """Distribution of durations by operation and size, as boxes over quantiles."""
    table = (
        run.lazy("collectives")
        .filter((pl.col("duration_ns") > 0) & pl.col("op").is_not_null())
        .group_by(pl.col("op").cast(pl.String), "size_bytes")
        .agg(
            pl.len().alias("n"),
            *(
                pl.col("duration_ns").quantile(q).alias(name)
                for q, name in ((0.05, "low"), (0.25, "q1"), (0.5, "median"), (0.75, "q3"), (0.95, "high"))
            ),
            pl.col("duration_ns").max().alias("max"),
            pl.col("duration_ns").sum().alias("sum"),
        )
        .sort("sum", "op", "size_bytes", descending=[True, False, False])
        .collect()
    )
    if table.is_empty():
        return None
    shown = table.head(20)
    names = [_kind(op, size) for op, size in shown.select("op", "size_bytes").iter_rows()]
    box: Trace = {
        "type": "box",
        "orientation": "h",
        "y": names,
        "name": "5 %, 25 %, 50 %, 75 %, 95 %",
        "marker": {"color": BLUE},
        **{
            key: rounded((shown[column] / 1e3).to_list())
            for key, column in (
                ("lowerfence", "low"),
                ("q1", "q1"),
                ("median", "median"),
                ("q3", "q3"),
                ("upperfence", "high"),
            )
        },
    }
    worst: Trace = {
        "type": "scatter",
        "mode": "markers",
        "name": "longest",
        "y": names,
        "x": rounded((shown["max"] / 1e3).to_list()),
        "marker": {"symbol": "x", "color": RED, "size": 9},
        "hovertemplate": "%{y}<br>longest %{x} us<extra></extra>",
    }
    wide = max(table.iter_rows(named=True), key=lambda r: r["high"] / max(r["median"], 1))
    said = f"{plural(table.height, 'kind')} of collectives by operation and size"
    said += f". The widest spread has {_kind(wide['op'], wide['size_bytes'])}: "
    said += f"half take up to {format_ns(wide['median'])}, one in twenty more than {format_ns(wide['high'])}"
    rows = tuple(
        (
            r["op"],
            format_bytes(r["size_bytes"]) if r["size_bytes"] is not None else "unknown",
            f"{r['n']:,}",
            *(format_ns(r[c]) for c in ("low", "median", "high", "max")),
        )
        for r in table.head(50).iter_rows(named=True)
    )
    plot = {
        "data": [box, worst],
        "layout": layout(
            xaxis=axis("microseconds", type="log", dtick=1),
            yaxis={"type": "category", "autorange": "reversed", "automargin": True},
        ),
    }
    return Figure(
        "durations",
        "How long collectives take",
        said + ".",
        ("Operation", "Size", "Count", "5 %", "Median", "95 %", "Longest"),
        rows,
        table.height,
        (1, 2, 3, 4, 5, 6),
        "Durations, most time first",
        plot,
    )


def _kind(op: str, size_bytes: int | None) -> str:
    return f"{op} {format_bytes(size_bytes)}" if size_bytes is not None else f"{op} (size unknown)"


def bandwidth(analysis: Analysis, run: Run) -> Figure | None:
    """Bus bandwidth against message size: measured by benchmarks, medians of traces, and NCCL's own estimate."""
    traced = (
        run.lazy("collectives")
        .filter(pl.col("busbw_gbps").is_finite() & (pl.col("size_bytes") > 0) & pl.col("op").is_not_null())
        .group_by(pl.col("op").cast(pl.String), "size_bytes")
        .agg(pl.col("busbw_gbps").median(), pl.col("busbw_gbps").max().alias("best"), pl.len().alias("n"))
        .with_columns(pl.lit("trace").alias("source"))
        .collect()
    )
    bench = (
        run.lazy("benchmarks")
        .filter(pl.col("busbw_gbps").is_finite() & (pl.col("size_bytes") > 0) & pl.col("op").is_not_null())
        .group_by(pl.col("op").cast(pl.String), "size_bytes")
        .agg(pl.col("busbw_gbps").median(), pl.col("busbw_gbps").max().alias("best"), pl.len().alias("n"))
        .with_columns(pl.lit("benchmark").alias("source"))
        .collect()
    )
    table = pl.concat([bench, traced]).sort("source", "op", "size_bytes")
    if table.is_empty():
        return None
    data: list[Trace] = []
    for number, ((source, op), part) in enumerate(table.group_by("source", "op", maintain_order=True)):
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if source == "benchmark" else "markers",
                "name": f"{op} ({source})",
                "x": part["size_bytes"].to_list(),
                "y": rounded(part["busbw_gbps"].to_list()),
                "marker": {
                    "symbol": ("circle", "square", "diamond", "triangle-up", "cross", "star")[number % 6],
                    "size": 9,
                },
                "line": {"color": SERIES[number % len(SERIES)]},
                "customdata": [format_bytes(s) for s in part["size_bytes"]],
                "hovertemplate": "%{fullData.name}<br>%{customdata}: %{y} GB/s<extra></extra>",
            }
        )
        data[-1]["marker"]["color"] = SERIES[number % len(SERIES)]
    curves = _expected_curves(run, table)
    data += curves
    best = max(table.iter_rows(named=True), key=lambda r: r["busbw_gbps"])
    said = f"The best median is {format_gbps(best['busbw_gbps'])}"
    said += f", {best['op']} of {format_bytes(best['size_bytes'])} ({best['source']})"
    if curves:
        said += f". Dotted, in its band: what {curves[-1]['meta']} expects"
    peak = _peak(run)
    shapes = []
    notes = []
    if peak:
        value, name = peak
        shapes.append(
            {
                "type": "line",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "y0": value,
                "y1": value,
                "line": {"color": GREY, "dash": "dash", "width": 1.5},
            }
        )
        notes.append(
            {
                "xref": "paper",
                "x": 1,
                "y": value,
                "text": label(f"{value:.0f} GB/s {name}", 80),
                "showarrow": False,
                "xanchor": "right",
                "yanchor": "bottom",
            }
        )
        said += f"; the dashed line is {format_gbps(value)}, {name}"
    lowest = int(str(table["size_bytes"].min())).bit_length() - 1
    highest = int(str(table["size_bytes"].max())).bit_length()
    ticks = list(range(lowest, highest + 1, 2 if highest - lowest > 8 else 1))
    plot = {
        "data": data,
        "layout": layout(
            shapes=shapes,
            annotations=notes,
            yaxis=axis("busbw, GB/s", rangemode="tozero"),
            xaxis=axis(
                "message size",
                type="log",
                tickvals=[1 << t for t in ticks],
                ticktext=[format_bytes(1 << t).replace(".0 ", " ") for t in ticks],
            ),
        ),
    }
    rows = tuple(
        (
            r["source"],
            r["op"],
            format_bytes(r["size_bytes"]),
            f"{r['n']:,}",
            f"{r['busbw_gbps']:.2f}",
            f"{r['best']:.2f}",
        )
        for r in table.sort("busbw_gbps", descending=True).head(50).iter_rows(named=True)
    )
    return Figure(
        "busbw",
        "Bus bandwidth by size",
        said + ".",
        ("From", "Operation", "Size", "Count", "Median GB/s", "Best GB/s"),
        rows,
        table.height,
        (2, 3, 4, 5),
        "Bus bandwidth, fastest first",
        plot,
    )


def _expected_curves(run: Run, table: pl.DataFrame) -> list[Trace]:
    """Expected bus bandwidth by size of each operation that was measured, where log or hardware table tell it: the
    band, its upper edge first, and in it what is expected.
    """
    curves: list[Trace] = []
    for number, op in enumerate(table["op"].unique(maintain_order=True)):
        sizes = sorted(set(table.filter(pl.col("op") == op)["size_bytes"].to_list()))[:40]
        told = _expected_of_benchmarks(run, str(op)) or _expected_of_traces(run, str(op), sizes)
        if len(told) < 2:
            continue
        color = SERIES[number % len(SERIES)]
        where = [size for size, *_ in told]
        low, high = ([band[at] for _, _, band, _ in told] for at in (0, 1))
        edge = {"type": "scatter", "mode": "lines", "x": where, "showlegend": False, "hoverinfo": "skip"}
        line = {"color": color, "width": 0}
        curves += [
            {**edge, "name": f"{op} highest expected", "y": rounded(high), "line": line},
            {
                **edge, "name": f"{op} lowest expected", "y": rounded(low), "line": line,
                "fill": "tonexty", "fillcolor": f"rgba({', '.join(str(v) for v in _rgb(color))}, 0.15)",
            },
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"{op} expected",
                "meta": told[0][3],
                "x": where,
                "y": rounded([value for _, value, *_ in told]),
                "line": {"color": color, "dash": "dot", "width": 1.5},
                "hovertemplate": "%{fullData.name}: %{y} GB/s<extra></extra>",
            },
        ]  # fmt: skip
    return curves


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _expected_of_benchmarks(run: Run, op: str) -> list[_Expected]:
    rows = efficiency(run).filter(pl.col("op").cast(pl.String) == op).drop_nulls("expected_gbps")
    rows = rows.unique("size_bytes", keep="first").sort("size_bytes")
    return [
        (size, value, (low, high), source)
        for size, value, low, high, source in rows.select(
            "size_bytes", "expected_gbps", "expected_low_gbps", "expected_high_gbps", "expected_from"
        ).iter_rows()
    ]


def _expected_of_traces(run: Run, op: str, sizes: Sequence[int]) -> list[_Expected]:
    groups = run.table("collectives")["group_size"].drop_nulls()
    nranks = groups.mode().sort().to_list()[-1] if groups.len() else None
    if not nranks:
        return []
    hosts = run.table("communicators").filter(pl.col("nranks") == nranks)["n_nodes"].drop_nulls()
    nodes = int(hosts[0]) if hosts.len() else None
    bands = (expected(run, op, int(size), int(nranks), nodes) for size in sizes)
    return [(b.size_bytes, b.busbw_gbps, (b.low_gbps, b.high_gbps), b.source) for b in bands if b is not None]


def _peak(run: Run) -> tuple[float, str] | None:
    """What large messages should reach: published results for the GPU or the NICs, else the GPU's NVLink."""
    for name in ("collectives", "ranks"):
        members = tuple(sorted(run.table(name)["rank"].drop_nulls().unique()))
        expected = expected_busbw(run, members, len(members)) if members else None
        if expected is not None:
            return expected.gbps, f"expected: {expected.why}"
    links = run.lazy("topology_links").filter(
        (pl.col("link").cast(pl.String) == "NVL") & pl.col("src").str.starts_with("GPU")
    )
    table = links.group_by("host", "src").agg(pl.col("bw_gbps").sum()).collect()
    value = table["bw_gbps"].median() if table.height else None
    return (float(str(value)), "NVLink of one GPU as NCCL lists it") if value else None


def stragglers(analysis: Analysis, run: Run) -> Figure | None:
    """Ranks by the delay that they cause, the same figure as in the findings: own lateness, not what it inherited."""
    found = arrivals(run)
    if found is None or found.ranks.height < 2:
        return None
    named = {r for late in found.stragglers for r in late.ranks} | {once.rank for once in found.once}
    delays = {r: late.delay_ns for late in found.stragglers for r in late.ranks}
    delays |= {once.rank: max(once.delay_ns, delays.get(once.rank, 0)) for once in found.once}
    frame = found.ranks.with_columns(
        delay_ns=pl.col("rank").replace_strict(delays, default=pl.col("delay_ns"), return_dtype=pl.Int64)
    ).sort("delay_ns", "rank", descending=[True, False])
    first = frame.row(0, named=True)
    middle = statistics.median(frame["delay_ns"].to_list())
    said = (
        f"Rank {first['rank']}: delays the others by {format_ns(first['delay_ns'])} in all"
        f" (last in {first['times_last']:,} of {plural(first['collectives'], 'collective')}); the median rank by "
        f"{format_ns(middle)}. Waiting that a rank inherits from other groups or stages is not counted"
    )
    if not named:
        said += ". No rank is late more often, or by more, than chance"
    shown = frame.head(40)
    bars: Trace = {
        "type": "bar",
        "orientation": "h",
        "y": [f"rank {r}" for r in shown["rank"]],
        "x": rounded((shown["delay_ns"] / 1e6).to_list()),
        "showlegend": False,
        "marker": {"color": [RED if r in named else BLUE for r in shown["rank"]]},
        "hovertemplate": "%{y}: %{x} ms<extra></extra>",
    }
    plot = {
        "data": [bars],
        "layout": layout(
            xaxis=axis("delay caused, ms"),
            yaxis={"type": "category", "autorange": "reversed", "automargin": True},
        ),
    }
    rows = tuple(
        (str(r["rank"]), f"{r['collectives']:,}", f"{r['times_last']:,}", format_ns(r["delay_ns"]),
         format_ns(r["worst_delay_ns"]), format_ns(r["mean_wait_ns"] or 0))
        for r in frame.head(50).iter_rows(named=True)
    )  # fmt: skip
    return Figure(
        "stragglers",
        "Who delays the others",
        said + ".",
        ("Rank", "Collectives", "Times last", "Delay caused", "At worst", "Mean wait"),
        rows,
        frame.height,
        (0, 1, 2, 3, 4, 5),
        "Ranks, most delay first",
        plot,
        "m",
    )


def longest_waits(analysis: Analysis, run: Run) -> Figure | None:
    """The collectives in which somebody waited longest, each with its ranks' parts."""
    table = run.table("collective_ranks")
    if table.is_empty():
        return None
    needed = ["worst_wait_ns", "transfer_ns", "ranks", "wait_ns", "last_rank", "op"]
    frame = (
        table.drop_nulls(needed).filter(pl.col("worst_wait_ns") > 0).sort("worst_wait_ns", descending=True)
    )
    if frame.is_empty():
        return None
    top = frame.row(0, named=True)
    step = f" of step {top['step']}" if top["step"] is not None else ""
    said = (
        f"Longest: {format_ns(top['worst_wait_ns'])} in {top['op']}{step}, for rank {top['last_rank']}, which came "
        f"last; the transfer takes {format_ns(top['transfer_ns'])}"
    )
    rows = tuple(
        (str(r["op"]), format_bytes(r["size_bytes"]) if r["size_bytes"] is not None else "unknown",
         str(r["process_group"] or "?"), "" if r["step"] is None else str(r["step"]), format_ns(r["transfer_ns"]),
         format_ns(r["worst_wait_ns"]), str(r["last_rank"]), _parts(r))
        for r in frame.head(50).iter_rows(named=True)
    )  # fmt: skip
    names = [f"{i + 1}. {op}" for i, op in enumerate(frame["op"].head(20))]
    plot = _bars(names, frame["worst_wait_ns"].head(20), "longest wait, ms")
    columns = (
        "Operation",
        "Size",
        "Group",
        "Step",
        "Transfer",
        "Longest wait",
        "Last rank",
        "Wait of each rank",
    )
    return Figure(
        "longest-waits", "Collectives with the longest waits", said + ".", columns, rows, frame.height, (3, 4, 5, 6),
        "Collectives, longest wait first", plot, "m",
    )  # fmt: skip


def _bars(names: list[str], values_ns: pl.Series, title: str) -> dict[str, Any]:
    bars: Trace = {
        "type": "bar", "orientation": "h", "y": names, "x": rounded((values_ns / 1e6).to_list()),
        "showlegend": False, "marker": {"color": BLUE}, "hovertemplate": "%{y}: %{x} ms<extra></extra>",
    }  # fmt: skip
    vertical = {"type": "category", "autorange": "reversed", "automargin": True}
    return {"data": [bars], "layout": layout(xaxis=axis(title), yaxis=vertical)}


def _parts(row: dict[str, Any]) -> str:
    shown = [f"{r}: {format_ns(w or 0)}" for r, w in zip(row["ranks"], row["wait_ns"], strict=False)]
    return ", ".join(shown[:8]) + (f", and {len(shown) - 8} more" if len(shown) > 8 else "")
