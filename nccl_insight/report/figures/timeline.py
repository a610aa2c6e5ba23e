"""Time of each rank: the timeline of collectives and what a step goes into."""

from collections.abc import Sequence

from nccl_insight.base.model import Analysis
from nccl_insight.base.units import capital, format_bytes, format_ns, plural
from nccl_insight.report.figures import base
from nccl_insight.report.figures.base import Figure, Trace, axis, bars, dots, hatched, listing, plot, rounded, stripes
from nccl_insight.views.steps import Steps
from nccl_insight.views.timeline import Gaps, Slice, Timeline

_HOVER = "%{fullData.name} %{customdata}<br>%{y}: %{base:.3f} ms, %{x:.3f} ms long"


def timeline(analysis: Analysis, view: Timeline) -> Figure:
    """Collectives of each rank (of each GPU where no rank is known) over time, what no computation covers as a line."""
    who = "GPU" if view.by_device else "rank"
    data: list[Trace] = []
    for number, op in enumerate(sorted({s.op for s in view.slices})):
        part = [s for s in view.slices if s.op == op]
        marker = {"color": base.SERIES[number % len(base.SERIES)]}
        drawn = stripes(op, [f"{who} {s.rank}" for s in part], [s.duration_ns / 1e6 for s in part], marker, _HOVER)
        sizes = [format_bytes(s.size_bytes) if s.size_bytes is not None else "unknown size" for s in part]
        data.append({**drawn, "base": rounded([s.at_ns / 1e6 for s in part], 7), "customdata": sizes, "width": 0.7})
    if exposed := [s for s in view.slices if s.exposed_ns > 0]:
        data.append(_exposed(who, exposed))
    what = f"step {view.step}" if view.step is not None else "the trace"
    said = f"{plural(len(view.slices), 'collective')} of {plural(len(view.shown), who)} in {what} "
    said += f"(of {view.collectives:,} in all). Red line: not covered by computation"
    if view.comm_ns and view.exposed_known:
        said += f", {100 * view.exposed_ns / view.comm_ns:.0f}% of the communication time"
    rows = tuple(
        (str(r.rank), str(r.collectives), format_ns(r.comm_ns), format_ns(r.exposed_ns), format_ns(r.longest_ns))
        for r in view.ranks
    )
    lanes = {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": [f"{who} {r}" for r in reversed(view.shown)],
        "automargin": True,
    }
    return Figure(
        "timeline",
        "Timeline",
        said + ".",
        listing(
            f"{capital(who)}#|Collectives#|Communication#|Exposed#|Longest#", rows, f"Communication of {what} by {who}"
        ),
        plot(data, barmode="overlay", xaxis=axis("ms since the first collective shown"), yaxis=lanes),
        "l" if len(view.shown) > 8 else "m",
        wide=True,
    )


def _exposed(who: str, slices: Sequence[Slice]) -> Trace:
    """The end of each collective, as far as no computation covers it."""
    bare = "%{y}<br>%{x:.3f} ms not covered by computation"
    names, parts = [f"{who} {s.rank}" for s in slices], [s.exposed_ns / 1e6 for s in slices]
    begins = rounded([s.at_ns / 1e6 + s.duration_ns / 1e6 - s.exposed_ns / 1e6 for s in slices], 7)
    return stripes("exposed part", names, parts, {"color": "#b3192d"}, bare) | {"base": begins, "width": 0.12}


def gaps(analysis: Analysis, view: Gaps) -> Figure:
    """Where each GPU's time went in a trace without steps, and the longest times between its collectives."""
    first = view.longest[0]
    said = f"{plural(view.total, 'gap')} between collectives; the longest, on GPU {first.device}, takes "
    said += f"{format_ns(first.duration_ns)}, half of them up to {format_ns(view.median_ns)}"
    for gpu in view.idle:
        said += f". GPU {gpu.device}: idle {gpu.idle_ns / gpu.whole_ns:.0%} of {format_ns(gpu.whole_ns)}"
    rows = tuple((str(g.device), format_ns(g.at_ns), format_ns(g.duration_ns), g.after, g.before) for g in view.longest)
    shown = view.longest[:12]
    names = [f"GPU {g.device}, at {format_ns(g.at_ns)}" for g in shown]
    drawn = bars(names, [g.duration_ns for g in shown], base.GREY, " without a collective")
    return Figure(
        "gaps",
        "Longest gaps between collectives",
        said + ".",
        listing("GPU#|From#|Gap#|After|Before", rows, "Gaps, the longest first", view.total),
        plot([drawn], xaxis=axis("ms between two collectives"), yaxis=base.NAMES),
        "m",
    )


def steps(analysis: Analysis, view: Steps) -> Figure:
    """What a step's time goes into, the mean of each rank (of each GPU where no rank is known)."""
    columns = ("duration_ns", "compute_ns", "comm_ns", "exposed_comm_ns", "memcpy_ns", "idle_ns")
    who = "GPU" if view.by_device else "rank"
    names = [f"{who} {r.rank}" for r in view.ranks]
    parts: tuple[tuple[str, str, str, str], ...] = (
        ("computation", "compute_ns", base.BLUE, ""),
        ("communication, exposed", "exposed_comm_ns", base.RED, "/"),
        ("copies", "memcpy_ns", base.ORANGE, "."),
        ("idle", "idle_ns", base.GREY, ""),
    )
    data: list[Trace] = [
        stripes(
            name,
            names,
            [(r.means[column] or 0) / 1e6 for r in view.ranks],
            hatched(color, shape),
            "%{y}<br>%{fullData.name} %{x} ms",
        )
        for name, column, color, shape in parts
        if any(r.means[column] is not None for r in view.ranks)
    ]
    took = rounded([None if (t := r.means["duration_ns"]) is None else t / 1e6 for r in view.ranks])
    mark = {"symbol": "line-ns-open", "size": 14, "color": base.GREEN, "line": {"width": 3}}
    data.append(dots("whole step", took, names, mark, "%{y}<br>step %{x} ms"))
    whole = view.means["duration_ns"] or 0
    said = f"A step takes {format_ns(whole)} on average over {plural(view.total, who)}"
    shares = [
        f"{name} {100 * part / whole:.0f}%" for name, c, _, _ in parts if (part := view.means[c]) is not None and whole
    ]
    said += ": " + ", ".join(shares) if shares else ""
    rows = tuple(
        (str(r.rank), f"{r.steps:,}", *("unknown" if (v := r.means[c]) is None else format_ns(v) for c in columns))
        for r in view.ranks
    )
    return Figure(
        "steps",
        "Where a step's time goes",
        said + ".",
        listing(
            f"{capital(who)}#|Steps#|Step#|Computation#|Communication#|Exposed#|Copies#|Idle#",
            rows,
            f"Mean step by {who}",
            view.total,
        ),
        plot(data, barmode="stack", xaxis=axis("ms per step"), yaxis=base.NAMES),
        "m",
    )
