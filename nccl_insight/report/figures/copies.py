"""Figures of what a capture measured beside collectives: host copies by rank, and the matrix of GPU pairs."""

from dataclasses import astuple

from nccl_insight.base.model import Analysis
from nccl_insight.base.units import format_span_gbps, plural
from nccl_insight.report.figures import base
from nccl_insight.report.figures.base import Figure, Trace, axis, cells, grid, label, listing, plot, rounded
from nccl_insight.views.copies import HostCopies, PeerCopies

_MOST_GPUS = 64
_DIRECTIONS = (("h2d", "host to GPU", base.BLUE), ("d2h", "GPU to host", base.ORANGE))


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
                "marker": {"color": color, **({"pattern": {"shape": "/", **base.OVERLAY}} if key == "d2h" else {})},
                "hovertemplate": "%{x}, %{fullData.name}: %{y} GB/s<extra></extra>",
            }
        )
    said = f"{format_span_gbps(*view.span)} between pinned host memory and GPUs"
    said += f"; {plural(view.odd_ranks, 'rank')} far below the others of the node" if view.odd_ranks else ""
    return Figure(
        "host-copies",
        "Host copies",
        f"{said}.",
        listing(
            "Host|Rank#|Direction|GB/s#|Median of the node#|Far below",
            cells(astuple(c) for c in view.copies),
            "Copies of pinned memory, one GPU at a time",
        ),
        plot=plot(data, barmode="group", yaxis=axis("GB/s", rangemode="tozero")),
    )


def peers(analysis: Analysis, view: PeerCopies) -> Figure:
    """GPU x GPU: the bandwidth of a copy from row to column, of the node with the slowest pair."""
    gpus = view.gpus[:_MOST_GPUS]
    rates = [rounded([view.worst.get((src, dst)) for dst in gpus]) for src in gpus]
    names = [label(f"GPU {gpu}") for gpu in gpus]
    trace = grid("from row to column", names, names, rates, "GB/s", "%{y} to %{x}: %{z} GB/s")
    trace |= {"texttemplate": "%{z:.0f}" if len(gpus) <= 16 else "", "xgap": 1, "ygap": 1}
    said = f"{plural(view.pairs, 'pair')}" + (f" of {view.hosts} nodes" if view.hosts > 1 else "")
    said += f", {format_span_gbps(*view.span)}"
    said += f"; {plural(view.odd, 'pair')} far below the others" if view.odd else ""
    said += f"; drawn is {view.worst_host}, which has the slowest pair" if view.hosts > 1 else ""
    return Figure(
        "peer-copies",
        "Copies between GPUs",
        f"{said}.",
        listing(
            "Host|From GPU#|To GPU#|GB/s#|Median of the node#|Far below",
            cells(astuple(c) for c in view.slowest),
            "Pairs of GPUs, the slowest first",
            view.pairs,
        ),
        plot=plot([trace], xaxis=axis("to"), yaxis=axis("from", autorange="reversed")),
        size="l" if len(gpus) > 16 else "m",
    )
