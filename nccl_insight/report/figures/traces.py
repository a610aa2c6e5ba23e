"""Figures of traces and benchmarks: timeline, durations, bandwidth, stragglers, steps."""

from __future__ import annotations

import statistics

import polars as pl

from nccl_insight.facts.expected import expected
from nccl_insight.facts.waiting import waiting
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
        said += f". Thin lines: what {curves[0]['meta']} expects"
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
    """Expected bus bandwidth by size of each operation that was measured, where log or hardware table tell it."""
    sizes = run.table("benchmarks")["nranks"].drop_nulls()
    if not sizes.len():
        sizes = run.table("collectives")["group_size"].drop_nulls()
    nranks = sizes.mode().sort().to_list()[-1] if sizes.len() else None
    if not nranks:
        return []
    hosts = run.table("communicators").filter(pl.col("nranks") == nranks)["n_nodes"].drop_nulls()
    nodes = int(hosts[0]) if hosts.len() else None
    curves: list[Trace] = []
    for number, op in enumerate(table["op"].unique(maintain_order=True)):
        points = sorted(
            set(table.filter(pl.col("op").eq_missing(pl.lit(op, pl.String)))["size_bytes"].to_list())
        )[:40]
        bands = [
            band
            for size in points
            if (band := expected(run, str(op), int(size), int(nranks), nodes)) is not None
        ]
        if len(bands) < 2:
            continue
        curves.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"{op} expected",
                "meta": bands[0].source,
                "x": [b.size_bytes for b in bands],
                "y": rounded([b.busbw_gbps for b in bands]),
                "line": {"color": SERIES[number % len(SERIES)], "dash": "dot", "width": 1.5},
                "hovertemplate": "%{fullData.name}: %{y} GB/s<extra></extra>",
            }
        )
    return curves


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
    """Ranks by how late they start collectives, where clocks allow; else by how little they wait."""
    table = run.table("collectives").filter(pl.col("rank").is_not_null())
    if table["rank"].n_unique() < 2 or waiting(run) is not None:
        return None  # who waits for whom says it better
    skewed = table.filter(pl.col("skew_ns").is_not_null())
    if skewed.height:
        frame = skewed.group_by("rank").agg(
            pl.col("skew_ns").mean().alias("v"), pl.col("skew_ns").max().alias("most"), pl.len().alias("n")
        )
        title, unit, header = "Who arrives late", "mean lateness, ms", "Mean lateness"
    else:
        waits = table.filter(pl.col("min_duration_ns").is_not_null()).with_columns(
            (pl.col("duration_ns") - pl.col("min_duration_ns")).alias("wait")
        )
        if waits.is_empty():
            return None
        frame = waits.group_by("rank").agg(
            pl.col("wait").mean().alias("v"), pl.col("wait").max().alias("most"), pl.len().alias("n")
        )
        title, unit, header = "Who waits least", "mean wait inside collectives, ms", "Mean wait"
    late = bool(skewed.height)
    frame = frame.sort("v", "rank", descending=[late, False])
    values = {int(r): float(v) for r, v in frame.select("rank", "v").iter_rows()}
    middle = statistics.median(values.values())
    first = frame.row(0, named=True)
    worse = "later" if late else "less wait"
    said = f"Rank {first['rank']}: {format_ns(first['v'])} on average over {plural(first['n'], 'collective')}"
    said += f"; the median rank {format_ns(middle)}"
    said += (
        ". The rank that starts last makes the others wait"
        if late
        else f". The rank with {worse} than the others is the one that they wait for"
    )
    shown = frame.head(40)
    bars: Trace = {
        "type": "bar",
        "orientation": "h",
        "y": [f"rank {r}" for r in shown["rank"]],
        "x": rounded((shown["v"] / 1e6).to_list()),
        "showlegend": False,
        "marker": {"color": [RED if late and v > 3 * max(middle, 1000) else BLUE for v in shown["v"]]},
        "hovertemplate": "%{y}: %{x} ms<extra></extra>",
    }
    plot = {
        "data": [bars],
        "layout": layout(
            xaxis=axis(unit), yaxis={"type": "category", "autorange": "reversed", "automargin": True}
        ),
    }
    rows = tuple((str(r), f"{n:,}", format_ns(v), format_ns(m)) for r, v, m, n in frame.head(50).iter_rows())
    return Figure(
        "stragglers",
        title,
        said + ".",
        ("Rank", "Collectives", header, "Most"),
        rows,
        frame.height,
        (0, 1, 2, 3),
        title,
        plot,
        "m",
    )
