"""What the job called: collectives by operation and message size."""

from nccl_insight.base.model import Analysis
from nccl_insight.base.units import format_bytes, plural
from nccl_insight.report.figures.base import SERIES, Figure, Trace, axis, hatched, listing, plot
from nccl_insight.views.calls import SMALL_BYTES, Calls


def calls(analysis: Analysis, view: Calls) -> Figure:
    """Stacked bars: powers of two of the size, colored by operation."""
    powers = range(view.powers[0], view.powers[1] + 1)
    names = [format_bytes(1 << p).replace(".0 ", " ") for p in powers]
    data: list[Trace] = [
        {
            "type": "bar", "name": item.op, "x": names, "y": [item.by_power.get(p, 0) for p in powers],
            "marker": hatched(SERIES[number % len(SERIES)], ("", "/", "x", ".", "\\", "-", "+", "|")[number % 8]),
            "hovertemplate": "%{fullData.name}, %{x} and more<br>%{y} calls<extra></extra>",
        }
        for number, item in enumerate(view.operations)
    ]  # fmt: skip
    said = f"{plural(view.calls, 'call')}: " + ", ".join(f"{i.calls:,} {i.op}" for i in view.operations[:5])
    if view.calls:
        said += f"; {100 * view.small / view.calls:.0f}% move less than {format_bytes(SMALL_BYTES)}"
    rows = tuple(
        (s.op, format_bytes(s.size_bytes), f"{s.calls:,}", format_bytes(s.calls * s.size_bytes)) for s in view.sizes
    )
    sizes = axis("message size", type="category", nticks=10, tickangle=0)
    return Figure(
        "calls",
        "Calls by operation and size",
        said + ".",
        listing("Operation|Size#|Calls#|Bytes in all#", rows, "Calls, most frequent first", view.n_sizes),
        plot(data, barmode="stack", xaxis=sizes, yaxis=axis("calls")),
    )
