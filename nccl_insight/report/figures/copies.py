"""Figures of what a capture measured beside collectives: host copies by rank, and the matrix of GPU pairs."""

from dataclasses import astuple

from nccl_insight.base.model import Analysis
from nccl_insight.base.units import format_span_gbps, plural
from nccl_insight.report.figures.base import (
    BLUE,
    MAX_ROWS,
    ORANGE,
    OVERLAY,
    Figure,
    Table,
    Trace,
    axis,
    cells,
    label,
    plot,
    rounded,
)
from nccl_insight.views.copies import HostCopies, PeerCopies

_MOST_GPUS = 64
_DIRECTIONS = (("h2d", "host to GPU", BLUE), ("d2h", "GPU to host", ORANGE))


def host(analysis: Analysis, view: HostCopies) -> Figure:
    """Pinned copies of each rank's GPU in both directions."""
    data: list[Trace] = []
    for key, name, color in _DIRECTIONS:
        part = [c for c in view.copies if c.direction == key]
        data.append(
            {
                "type": "bar",
                "name": name,
                "x": [label(f"rank {c.rank}") for c in part],
                "y": rounded([c.gbps for c in part]),
                "marker": {"color": color, **({"pattern": {"shape": "/", **OVERLAY}} if key == "d2h" else {})},
                "hovertemplate": "%{x}, %{fullData.name}: %{y} GB/s<extra></extra>",
            }
        )
    said = f"{format_span_gbps(*view.span)} between pinned host memory and GPUs"
    said += f"; {plural(view.odd_ranks, 'rank')} far below the others of the node" if view.odd_ranks else ""
    return Figure(
        "host-copies",
        "Host copies",
        f"{said}.",
        Table(
            columns=("Host", "Rank", "Direction", "GB/s", "Median of the node", "Far below"),
            rows=cells(astuple(c) for c in view.copies[:MAX_ROWS]),
            total=len(view.copies),
            numeric=(1, 3, 4),
            caption="Copies of pinned memory, one GPU at a time",
        ),
        plot=plot(data, barmode="group", yaxis=axis("GB/s", rangemode="tozero")),
    )


def peers(analysis: Analysis, view: PeerCopies) -> Figure:
    """GPU x GPU: the bandwidth of a copy from row to column, of the node with the slowest pair."""
    gpus = view.gpus[:_MOST_GPUS]
    grid = [rounded([view.worst.get((src, dst)) for dst in gpus]) for src in gpus]
    names = [label(f"GPU {gpu}") for gpu in gpus]
    trace: Trace = {
        "type": "heatmap",
        "name": "from row to column",
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
    said = f"{plural(view.pairs, 'pair')}" + (f" of {view.hosts} nodes" if view.hosts > 1 else "")
    said += f", {format_span_gbps(*view.span)}"
    said += f"; {plural(view.odd, 'pair')} far below the others" if view.odd else ""
    said += f"; drawn is {view.worst_host}, which has the slowest pair" if view.hosts > 1 else ""
    return Figure(
        "peer-copies",
        "Copies between GPUs",
        f"{said}.",
        Table(
            columns=("Host", "From GPU", "To GPU", "GB/s", "Median of the node", "Far below"),
            rows=cells(astuple(c) for c in view.slowest),
            total=view.pairs,
            numeric=(1, 2, 3, 4),
            caption="Pairs of GPUs, the slowest first",
        ),
        plot=plot([trace], xaxis=axis("to"), yaxis=axis("from", autorange="reversed")),
        size="l" if len(gpus) > 16 else "m",
    )
