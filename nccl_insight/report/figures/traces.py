"""Figures of traces and benchmarks: timeline, durations, bandwidth, gains, steps."""

from typing import Any

from nccl_insight.base.model import Analysis
from nccl_insight.base.units import capital, format_bytes, format_gbps, format_ns, plural
from nccl_insight.base.words import pairs
from nccl_insight.report.figures import base
from nccl_insight.report.figures.base import Figure, Trace, axis, bars, dots, grid, label, listing, plot, rounded
from nccl_insight.views.traces import Bandwidth, Durations, Excess


def durations(analysis: Analysis, view: Durations) -> Figure:
    """Distribution of durations by operation and size, as boxes over quantiles."""
    shown = view.kinds[:20]
    names = [_kind(d.op, d.size_bytes) for d in shown]
    box: Trace = {
        "type": "box",
        "orientation": "h",
        "y": names,
        "name": "5%, 25%, 50%, 75%, 95%",
        "marker": {"color": base.BLUE},
    }
    for quantile, field in pairs("lowerfence=low q1=q1 median=median q3=q3 upperfence=high").items():
        box[quantile] = rounded([getattr(d, f"{field}_ns") / 1e3 for d in shown])
    longest = rounded([d.longest_ns / 1e3 for d in shown])
    worst = dots("longest", longest, names, {"symbol": "x", "color": base.RED, "size": 9}, "%{y}<br>longest %{x} us")
    wide = view.widest
    said = f"{plural(view.total, 'kind')} of collectives by operation and size"
    said += f". The widest spread has {_kind(wide.op, wide.size_bytes)}: "
    said += f"half take up to {format_ns(wide.median_ns)}, one in twenty more than {format_ns(wide.high_ns)}"
    rows = tuple(
        (
            d.op,
            format_bytes(d.size_bytes) if d.size_bytes is not None else "unknown",
            f"{d.count:,}",
            *(format_ns(t) for t in (d.low_ns, d.median_ns, d.high_ns, d.longest_ns)),
        )
        for d in view.kinds
    )
    return Figure(
        "durations",
        "How long collectives take",
        said + ".",
        listing("Operation|Size#|Count#|5%#|Median#|95%#|Longest#", rows, "Durations, most time first", view.total),
        plot([box, worst], xaxis=axis("microseconds", type="log", dtick=1), yaxis=base.NAMES),
    )


def _kind(op: str, size_bytes: int | None) -> str:
    return f"{op} {format_bytes(size_bytes)}" if size_bytes is not None else f"{op} (size unknown)"


def bandwidth(analysis: Analysis, view: Bandwidth) -> Figure:
    """Bus bandwidth against message size: measured by benchmarks, medians of traces, and NCCL's own estimate."""
    curves = _expected_curves(view)
    fastest = view.fastest
    best = fastest[0]
    said = f"The best median is {format_gbps(best.median_gbps)}"
    said += f", {best.op} of {format_bytes(best.size_bytes)} ({best.source})"
    if curves:
        said += f". Dotted, in its band: what {curves[-1]['meta']} expects"
    lines: dict[str, Any] = {"shapes": [], "annotations": []}
    if view.peak:
        value, why = view.peak.gbps, view.peak.why
        name = "NVLink of one GPU as NCCL lists it" if why is None else f"expected: {why}"
        # What no transfer passes, as a dashed line with its name at the right.
        line = {"color": base.GREY, "dash": "dash", "width": 1.5}
        shape = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": value, "y1": value, "line": line}
        shown = label(f"{value:.0f} GB/s {name}", 80)
        place = {"xref": "paper", "x": 1, "y": value, "text": shown}
        note = {**place, "showarrow": False, "xanchor": "right", "yanchor": "bottom"}
        lines = {"shapes": [shape], "annotations": [note]}
        said += f"; the dashed line is {format_gbps(value)}, {name}"
    rows = tuple(
        (p.source, p.op, format_bytes(p.size_bytes), f"{p.count:,}", f"{p.median_gbps:.2f}", f"{p.best_gbps:.2f}")
        for p in fastest
    )
    # Bandwidths by powers of ten where small messages would all lie on zero.
    wide = view.fastest[-1].median_gbps * 100 < view.fastest[0].median_gbps
    return Figure(
        "busbw",
        "Bus bandwidth by size",
        said + ".",
        listing(
            "From|Operation|Size#|Count#|Median GB/s#|Best GB/s#",
            rows,
            "Bus bandwidth, fastest first",
            len(view.points),
        ),
        plot(
            [*_measured_points(view), *curves],
            **lines,
            yaxis=axis(
                "busbw, GB/s", **({"type": "log", "dtick": 1, "tickformat": "~g"} if wide else {"rangemode": "tozero"})
            ),
            xaxis=_size_axis(view),
        ),
    )


def _measured_points(view: Bandwidth) -> list[Trace]:
    """One series per source and operation."""
    data: list[Trace] = []
    for number, (source, op) in enumerate(dict.fromkeys((p.source, p.op) for p in view.points)):
        part = [p for p in view.points if (p.source, p.op) == (source, op)]
        color = base.SERIES[number % len(base.SERIES)]
        symbol = ("circle", "square", "diamond", "triangle-up", "cross", "star")[number % 6]
        marker, hover = {"symbol": symbol, "size": 9, "color": color}, "%{fullData.name}<br>%{customdata}: %{y} GB/s"
        sizes, speeds = [p.size_bytes for p in part], rounded([p.median_gbps for p in part])
        trace = dots(f"{op} ({source})", sizes, speeds, marker, hover)
        trace |= {"line": {"color": color}, "customdata": [format_bytes(size) for size in sizes]}
        data.append(trace | ({"mode": "lines+markers"} if source == "benchmark" else {}))
    return data


def _size_axis(view: Bandwidth) -> dict[str, Any]:
    """Message sizes by powers of two, every other one where there are many."""
    lowest = min(p.size_bytes for p in view.points).bit_length() - 1
    highest = max(p.size_bytes for p in view.points).bit_length()
    ticks = [1 << t for t in range(lowest, highest + 1, 2 if highest - lowest > 8 else 1)]
    return axis(
        "message size", type="log", tickvals=ticks, ticktext=[format_bytes(t).replace(".0 ", " ") for t in ticks]
    )


def _expected_curves(view: Bandwidth) -> list[Trace]:
    """Expected bus bandwidth by size of each operation that was measured, where log or hardware table tell it: the
    band, its upper edge first, and in it what is expected.
    """
    curves: list[Trace] = []
    for number, (op, told) in enumerate(view.expected):
        if len(told) < 2:
            continue
        color = base.SERIES[number % len(base.SERIES)]
        where = [e.size_bytes for e in told]
        curve = {"type": "scatter", "mode": "lines", "x": where}
        edge = {**curve, "showlegend": False, "hoverinfo": "skip", "line": {"color": color, "width": 0}}
        band = {"fill": "tonexty", "fillcolor": f"rgba({', '.join(map(str, bytes.fromhex(color[1:])))}, 0.15)"}
        high, low, usual = ([getattr(e, key) for e in told] for key in ("high_gbps", "low_gbps", "busbw_gbps"))
        curves += [
            {**edge, "name": f"{op} highest expected", "y": rounded(high)},
            {**edge, "name": f"{op} lowest expected", "y": rounded(low), **band},
            {
                **curve, "name": f"{op} expected", "meta": told[0].source, "y": rounded(usual),
                "line": {"color": color, "dash": "dot", "width": 1.5},
                "hovertemplate": "%{fullData.name}: %{y} GB/s<extra></extra>",
            },
        ]  # fmt: skip
    return curves


def mends(analysis: Analysis) -> Figure | None:
    """What a step takes, and what it would take with one thing after the other mended."""
    replay = analysis.replay
    if replay is None or not analysis.what_if:
        return None
    per = "a step" if replay.steps > 1 else "what was recorded"
    shown = [("as recorded", round(replay.window_ns / replay.steps))]
    shown += [(mend.scenario, mend.step_ns) for mend in analysis.what_if]
    if replay.ideal_ns is not None:
        shown.append(("everything even", round(replay.ideal_ns / replay.steps)))
    names = [f"{n}. {name}" if n else name for n, (name, _) in enumerate(shown)]
    colors = [base.GREY, *[base.BLUE] * len(analysis.what_if), *[base.GREY] * (len(shown) - len(analysis.what_if) - 1)]
    last = analysis.what_if[-1]
    rows = [
        (m.scenario, format_ns(m.step_ns), f"{m.gain_share:.0%}", f"{m.alone_ns / replay.window_ns:.0%}")
        for m in analysis.what_if
    ]
    return Figure(
        "mends",
        "What mending would gain",
        f"{capital(per)} takes {format_ns(shown[0][1])}; with all of these mended {format_ns(last.step_ns)} "
        f"({last.gain_share:.0%} less). Each bar has everything above it mended, too.",
        listing(f"Mended|{capital(per)} takes#|Gain so far#|Gain alone#", rows, "What to mend first"),
        plot(
            [bars(names, [took for _, took in shown], colors)], xaxis=axis("ms", rangemode="tozero"), yaxis=base.NAMES
        ),
        "m",
    )


def excess(analysis: Analysis, view: Excess) -> Figure:
    """Rank x step: what each rank takes more than its peers, waiting left out."""
    most = next(iter(view.whole))
    said = f"Rank {most} alone takes {format_ns(view.whole[most])} more than its peers, the most of all"
    steps = [str(s) if len(view.steps) > 1 else "in all" for s in view.steps]
    took = [rounded([None if ns is None else max(ns, 0) / 1e6 for ns in view.by_step[rank]]) for rank in view.whole]
    names = [label(f"rank {r}") for r in view.whole]
    rows = [(str(r), format_ns(ns), "yes" if r in view.named else "no") for r, ns in view.whole.items()]
    return Figure(
        "excess",
        "Who takes longer than its peers",
        f"{said}. Own work and pauses count, waiting for others does not.",
        listing("Rank#|More than its peers#|A finding names it", rows, "Ranks, most excess first", view.total),
        plot(
            [grid("rank by step", steps, names, took, "ms", "%{y}, step %{x}: %{z} ms")],
            xaxis=axis("step", type="category", nticks=10, tickangle=0),
            yaxis=axis("rank", autorange="reversed"),
        ),
        "m",
    )
