"""Figures of what a capture measured beside collectives: host copies by rank, and the matrix of GPU pairs."""

from __future__ import annotations

import polars as pl

from nccl_insight.facts.copies import host_copies, peer_copies, span
from nccl_insight.model import Analysis
from nccl_insight.report.figures.base import (
    BLUE,
    ORANGE,
    OVERLAY,
    Figure,
    Trace,
    axis,
    cells,
    label,
    layout,
    rounded,
)
from nccl_insight.tables.run import Run
from nccl_insight.units import plural

_MOST_GPUS = 64
_DIRECTIONS = (("h2d", "host to GPU", BLUE), ("d2h", "GPU to host", ORANGE))


def host(analysis: Analysis, run: Run) -> Figure | None:
    """Pinned copies of each rank's GPU in both directions."""
    rows = host_copies(run)
    if rows.is_empty():
        return None
    rows = rows.sort("rank", "direction")
    data: list[Trace] = []
    for key, name, color in _DIRECTIONS:
        part = rows.filter(pl.col("direction") == key)
        data.append(
            {
                "type": "bar",
                "name": name,
                "x": [label(f"rank {rank}") for rank in part["rank"]],
                "y": rounded(part["gbps"].to_list()),
                "marker": {
                    "color": color,
                    **({"pattern": {"shape": "/", **OVERLAY}} if key == "d2h" else {}),
                },
                "hovertemplate": "%{x}, %{fullData.name}: %{y} GB/s<extra></extra>",
            }
        )
    odd = rows.filter("odd")
    said = f"{span(rows)} between pinned host memory and GPUs"
    said += (
        f"; {plural(odd['rank'].n_unique(), 'rank')} far below the others of the node" if odd.height else ""
    )
    columns = rows.select("host", "rank", "direction", "gbps", "typical", "odd")
    return Figure(
        "host-copies",
        "Host copies",
        f"{said}.",
        columns=("Host", "Rank", "Direction", "GB/s", "Median of the node", "Far below"),
        rows=cells(columns),
        total=rows.height,
        numeric=(1, 3, 4),
        caption="Copies of pinned memory, one GPU at a time",
        plot={"data": data, "layout": layout(barmode="group", yaxis=axis("GB/s", rangemode="tozero"))},
    )


def peers(analysis: Analysis, run: Run) -> Figure | None:
    """GPU x GPU: the bandwidth of a copy from row to column, of the node with the slowest pair."""
    rows = peer_copies(run)
    if rows.is_empty():
        return None
    worst = rows.sort("gbps").row(0, named=True)
    here = rows.filter(pl.col("host").eq_missing(worst["host"]))
    gpus = sorted(set(here["src"]) | set(here["dst"]))[:_MOST_GPUS]
    at = {gpu: n for n, gpu in enumerate(gpus)}
    grid: list[list[float | None]] = [[None] * len(gpus) for _ in gpus]
    for src, dst, gbps in here.select("src", "dst", "gbps").iter_rows():
        if src in at and dst in at:
            grid[at[src]][at[dst]] = rounded([gbps])[0]
    names = [label(f"GPU {gpu}") for gpu in gpus]
    trace: Trace = {
        "type": "heatmap",
        "x": names,
        "y": names,
        "z": grid,
        "zmin": 0,
        "colorscale": "Cividis",
        "colorbar": {"title": {"text": "GB/s"}},
        "texttemplate": "%{z:.0f}" if len(gpus) <= 16 else "",
        "xgap": 1,
        "ygap": 1,
        "hovertemplate": "%{y} to %{x}: %{z} GB/s<extra></extra>",
    }
    hosts = rows["host"].n_unique()
    said = f"{plural(rows.height, 'pair')}" + (f" of {hosts} nodes" if hosts > 1 else "")
    said += f", {span(rows)}"
    odd = rows.filter("odd").height
    said += f"; {plural(odd, 'pair')} far below the others" if odd else ""
    said += f"; drawn is {worst['host']}, which has the slowest pair" if hosts > 1 else ""
    listed = rows.sort("gbps").select("host", "src", "dst", "gbps", "typical", "odd")
    return Figure(
        "peer-copies",
        "Copies between GPUs",
        f"{said}.",
        columns=("Host", "From GPU", "To GPU", "GB/s", "Median of the node", "Far below"),
        rows=cells(listed),
        total=rows.height,
        numeric=(1, 2, 3, 4),
        caption="Pairs of GPUs, the slowest first",
        plot={
            "data": [trace],
            "layout": layout(xaxis=axis("to"), yaxis=axis("from", autorange="reversed")),
        },
        size="l" if len(gpus) > 16 else "m",
    )
