"""The comparison of two runs as one self-contained HTML page."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from nccl_insight.base.model import Analysis, Ref, Severity
from nccl_insight.base.units import plural
from nccl_insight.base.version import __version__
from nccl_insight.engine.compare import Change, Comparison, FindingChange
from nccl_insight.report import diff
from nccl_insight.report.figures.base import GREEN, GREY, RED, Figure, Table, Trace, axis, hatched, label, plot, rounded
from nccl_insight.report.figures.matrix import matrix
from nccl_insight.report.figures.node import node_diagram
from nccl_insight.report.html.figures import drawn
from nccl_insight.report.html.markup import fill, json_block
from nccl_insight.report.html.page import Document, document
from nccl_insight.report.sanitize import one_line
from nccl_insight.views.matrix import differing
from nccl_insight.views.page import Structure

_HALF = 560.0
_STATUS = {"new": "error", "worse": "warning", "other": "info", "better": "ok", "gone": "ok"}


Side = tuple[Analysis, Structure]


def render(comparison: Comparison, *, js: str = "inline", sides: tuple[Side, Side] | None = None) -> str:
    """The page; ``js`` as in :func:`nccl_insight.report.html.render`.

    ``sides``: analysis and structure of the good and the bad run; with them their nodes and transports are
    drawn side by side.
    """
    figures = [f for f in [_effects(comparison)] if f is not None]
    figures += side_by_side(*sides) if sides is not None else []
    raised = [f.severity_bad for f in comparison.findings if f.status in ("new", "worse") and f.severity_bad]
    worst = min(raised, key=lambda severity: severity.order, default=Severity.INFO)
    body = fill(
        "diff.html",
        comparison=comparison,
        diff=diff,
        kind=worst.value if comparison.differs else "ok",
        word="DIFFERENT" if comparison.differs else "SAME",
        value=_value,
        status=_status,
        where=partial(_where, comparison),
        figures=drawn(figures, interactive=js != "none"),
    )
    nav = [("findings", "Findings"), ("changes", "Changes"), ("rest", "Not compared")]
    if figures:
        nav.insert(2, ("figures", "Figures"))
    frame = Document(
        f"{diff.headline(comparison)} - nccl-insight comparison",
        f"nccl-insight {__version__}",
        nav,
        [json_block("nccl-insight", diff.to_dict(comparison))],
        {"all": diff.markdown(comparison)},
        f"nccl-insight {__version__}. This file is complete in itself: it loads nothing and sends nothing.",
    )
    return document(frame, body, figures, js)


def _value(change: Change, text: str) -> str:
    return one_line(text, 200).replace(",", ", ") or diff.absent(change)  # a list may break between its items


def _status(change: FindingChange) -> str:
    """The kind of its badge."""
    kind = _STATUS.get(change.status, "info")
    return "info" if change.severity_bad is Severity.INFO and kind == "error" else kind


def _where(comparison: Comparison, change: Change) -> str:
    both = _place(comparison.good, change.evidence_good), _place(comparison.bad, change.evidence_bad)
    return "; ".join(filter(None, both))


def _place(inputs: Sequence[tuple[int, str]], refs: Sequence[Ref]) -> str:
    return next(iter(diff.places(inputs, refs)), "").rpartition("/")[2]  # the whole path stands above


def side_by_side(good: Side, bad: Side) -> list[Figure]:
    """Node and transport matrix of both runs in pairs; pairs of ranks that talk otherwise are outlined."""
    found: list[Figure] = []
    if good[1].nodes and bad[1].nodes:
        found += _pair(node_diagram(good[0], good[1].nodes), node_diagram(bad[0], bad[1].nodes))
    if good[1].matrix and bad[1].matrix:
        changed = differing(good[1].matrix, bad[1].matrix)
        first, second = matrix(good[0], good[1].matrix), matrix(bad[0], bad[1].matrix)
        if changed and first.svg != second.svg:
            second = replace(second, svg=matrix(bad[0], bad[1].matrix, outlined=changed).svg)
        count = plural(len(changed), "connection differs", "connections differ")
        told = f" {count} from the good run" + ("; they are outlined." if changed else ".")
        found += _pair(first, second, told)
    return found


def _pair(good: Figure | None, bad: Figure | None, told: str = "") -> list[Figure]:
    """The figure of both runs, once where they are the same. ``told``: of the difference."""
    if good is None or bad is None:
        return []
    if good.svg == bad.svg:
        said = f"{good.summary} The same in both runs."
        return [replace(good, id=f"both-{good.id}", summary=said, wide=True)]
    return [
        replace(
            figure,
            id=f"{name}-{figure.id}",
            title=f"{figure.title}: {title}",
            table=replace(figure.table, caption=f"{figure.table.caption or figure.title}: {title}"),
            summary=figure.summary + said,
            wide=any(float(width) > _HALF for width in re.findall(r'^[^>]* width="([0-9.]+)"', figure.svg)),
        )
        for name, title, figure, said in (
            ("good", "the run that worked", good, ""),
            ("bad", "the run to explain", bad, told),
        )
    ]


def _effects(comparison: Comparison) -> Figure | None:
    """Bars of measured values, bad run over good run."""
    measured = [(c, c.ratio) for c in comparison.changes if c.ratio is not None and c.ratio > 0]
    if not measured:
        return None
    shown = measured[:30]
    names = [label(f"{c.area}: {c.subject}", 60) for c, _ in shown]
    worse = [(r < 1) if c.area == "bandwidth" else (r > 1) for c, r in shown]
    bars: list[Trace] = []
    for kind, name, color, shape in ((True, "worse", RED, "/"), (False, "better", GREEN, "")):
        own = [(n, r) for n, (_, r), w in zip(names, shown, worse, strict=True) if w is kind]
        bar: Trace = {"type": "bar", "orientation": "h", "name": name, "y": [n for n, _ in own]}
        bar |= {"x": rounded([math.log2(r) for _, r in own]), "customdata": [f"{r:.2f}x" for _, r in own]}
        bar |= {"marker": hatched(color, shape)}
        bars += [{**bar, "hovertemplate": "%{y}<br>%{customdata} the good run<extra></extra>"}] if own else []
    furthest, most = max(shown, key=lambda one: abs(math.log2(one[1])))
    reach = max(1, math.ceil(abs(math.log2(most))))
    step = max(1, reach // 4)
    ticks = list(range(-reach, reach + 1, step))
    ends = {"type": "line", "x0": 0, "x1": 0, "yref": "paper", "y0": 0, "y1": 1}
    line = {**ends, "layer": "above", "line": {"color": GREY, "dash": "dash", "width": 2}}
    rows = tuple(
        (c.area, one_line(c.subject, 200), _value(c, c.good), _value(c, c.bad), f"{r:.2f}") for c, r in measured[:50]
    )
    powers = [f"{2**t}x" if t >= 0 else f"1/{2**-t}" for t in ticks]
    across = axis("", tickvals=ticks, ticktext=powers)
    lanes = {"type": "category", "automargin": True, "categoryorder": "array", "categoryarray": names[::-1]}
    return Figure(
        "ratios",
        "Measured, bad run over good run",
        f"{plural(len(measured), 'measured value')} differ; furthest from 1 is "
        f"{one_line(furthest.subject, 100)} with {most:.2f}x of the good run.",
        Table(("Area", "What", "Good run", "Bad run", "Ratio"), rows, len(measured), (4,), "Measured values"),
        plot(bars, shapes=[line], barmode="overlay", xaxis=across, yaxis=lanes),
        "m",
        wide=True,
    )
