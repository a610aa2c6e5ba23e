"""What the job called: collectives by operation and message size."""

from __future__ import annotations

import polars as pl

from nccl_insight.model import Analysis
from nccl_insight.report.figures.base import OVERLAY, SERIES, Figure, Trace, axis, layout
from nccl_insight.tables.run import Run
from nccl_insight.units import format_bytes, plural

_SMALL = 64 * 1024


def call_sizes(run: Run) -> pl.DataFrame:
    """Calls by operation and size: ``op, size_bytes, calls``, from the log, else from a trace."""
    # A row of collectives may stand for several calls.
    name, weight = (
        ("calls", pl.len()) if run.has("calls") else ("collectives", pl.col("calls").fill_null(1).sum())
    )
    kind = ["op", "size_bytes"]
    parts = [
        frame.drop_nulls(kind)
        .group_by(pl.col("op").cast(pl.String), "size_bytes")
        .agg(weight.cast(pl.Int64).alias("calls"))
        for frame in run.pieces(name)
    ]
    whole = pl.concat(parts).group_by(kind).agg(pl.col("calls").sum())
    return whole.sort("calls", "op", "size_bytes", descending=[True, False, False])


def calls(analysis: Analysis, run: Run) -> Figure | None:
    """Stacked bars: powers of two of the size, colored by operation."""
    table = call_sizes(run)
    if table.is_empty():
        return None
    bucket = (pl.col("size_bytes").cast(pl.Float64).clip(1).log(2) + 1e-9).floor().cast(pl.Int64)
    grouped = (
        table.with_columns(bucket.alias("power"))
        .group_by("op", "power")
        .agg(pl.col("calls").sum())
        .sort("op", "power")
    )
    powers = list(range(int(str(grouped["power"].min())), int(str(grouped["power"].max())) + 1))
    names = [format_bytes(1 << p).replace(".0 ", " ") for p in powers]
    totals = (
        table.group_by("op")
        .agg(pl.col("calls").sum(), (pl.col("calls") * pl.col("size_bytes")).sum().alias("bytes"))
        .sort("calls", "op", descending=[True, False])
    )
    data: list[Trace] = []
    for number, op in enumerate(totals["op"].to_list()):
        counted = dict(grouped.filter(pl.col("op") == op).select("power", "calls").iter_rows())
        data.append(
            {
                "type": "bar",
                "name": op,
                "x": names,
                "y": [counted.get(p, 0) for p in powers],
                "marker": {
                    "color": SERIES[number % len(SERIES)],
                    "pattern": {
                        "shape": ("", "/", "x", ".", "\\", "-", "+", "|")[number % 8],
                        "solidity": 0.3,
                        **OVERLAY,
                    },
                },
                "hovertemplate": "%{fullData.name}, %{x} and more<br>%{y} calls<extra></extra>",
            }
        )
    every = int(table["calls"].sum())
    small = int(table.filter(pl.col("size_bytes") < _SMALL)["calls"].sum())
    said = f"{plural(every, 'call')}: " + ", ".join(f"{n:,} {op}" for op, n, _ in totals.head(5).iter_rows())
    said += f"; {100 * small / every:.0f} % move less than {format_bytes(_SMALL)}" if every else ""
    rows = tuple(
        (op, format_bytes(size), f"{n:,}", format_bytes(n * size))
        for op, size, n in table.head(50).iter_rows()
    )
    plot = {
        "data": data,
        "layout": layout(
            barmode="stack",
            xaxis=axis("message size", type="category", nticks=10, tickangle=0),
            yaxis=axis("calls"),
        ),
    }
    return Figure(
        "calls",
        "Calls by operation and size",
        said + ".",
        ("Operation", "Size", "Calls", "Bytes in all"),
        rows,
        table.height,
        (1, 2, 3),
        "Calls, most frequent first",
        plot,
    )
