"""Figures on the page: a sentence, a drawing, plotly's figure over it where scripts run, and the table behind it."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from nccl_insight.base.model import Finding, Severity
from nccl_insight.report.figures.base import Figure
from nccl_insight.report.figures.chart import chart
from nccl_insight.report.html.findings import related
from nccl_insight.report.html.markup import Markup, chapter, el, prose, table
from nccl_insight.views.context import FINDINGS

_LINKED = 6


def figure_section(figures: Sequence[Figure], *, interactive: bool, findings: Sequence[Finding] = ()) -> Markup | None:
    """All figures of the report under one heading, each with links to the findings that it shows."""
    if not figures:
        text = "The inputs hold nothing to draw: no topology, no connections, no calls, no trace."
        return chapter("figures", "Figures", el("p", text))
    drawn = [_figure(f, interactive, _about(f, figures, findings)) for f in _paired(figures)]
    return chapter("figures", "Figures", el("div", drawn, class_="figs"))


def _paired(figures: Sequence[Figure]) -> list[Figure]:
    """The figures, the last narrow one made wide where it would stand alone beside a hole."""
    narrow = [n for n, figure in enumerate(figures) if not figure.wide]
    alone = narrow[-1] if len(narrow) % 2 else -1
    return [replace(f, wide=True) if n == alone else f for n, f in enumerate(figures)]


def _about(figure: Figure, figures: Sequence[Figure], findings: Sequence[Finding]) -> Markup | None:
    shown = [f for f in findings[:FINDINGS] if figure.id in {r.id for r in related(f, figures)}]
    first: dict[str, Finding] = {}
    for finding in shown:
        if finding.severity is not Severity.INFO:
            first.setdefault(finding.code, finding)
    if not first:
        return None
    loud = enumerate(islice(first.values(), _LINKED))
    links = [[", " if n else "", el("a", f"{f.code} {f.name}", href=f"#{f.anchor}")] for n, f in loud]
    return el("p", "Findings: ", links, class_="small")


def _figure(figure: Figure, interactive: bool, about: Markup | None = None, *, heading: str = "h3") -> Markup:
    title_id, text_id = f"fig-{figure.id}", f"say-{figure.id}"
    live = interactive and figure.plot is not None
    drawing = figure.svg or (chart(figure.plot, figure.title, figure.size, wide=figure.wide) if figure.plot else "")
    grid = None
    if (shown := figure.table).rows:
        name = f"Table: {shown.caption or figure.title}"
        data = table(name[7:], shown.columns, shown.rows, total=shown.total, numeric=shown.numeric)
        grid = el("details", el("summary", name), data, open=not drawing)
    return el(
        "figure",
        el(
            "figcaption",
            el(heading, figure.title, id=title_id),
            el("p", prose(figure.summary), id=text_id, class_="say"),
            about,
        ),
        _pick(figure) if interactive else None,
        Markup(
            f'<div class="scroll{" still" if live else ""}" tabindex="0" role="region" aria-label="{figure.id}">'
            f"{drawing}</div>"
        )
        if drawing
        else None,
        el(
            "div",
            id=f"plot-{figure.id}",
            class_=f"plot h-{figure.size}",
            role="group",
            aria_labelledby=title_id,
            aria_describedby=text_id,
        )
        if live
        else None,
        grid,
        class_="fig panel wide" if figure.wide else "fig panel",
    )


def figure_panel(figure: Figure, interactive: bool, findings: Sequence[Finding] = ()) -> Markup:
    """One figure by itself, for the first screen, with links to the findings that it shows."""
    return _figure(figure, interactive, _about(figure, [figure], findings), heading="h2")


def _pick(figure: Figure) -> Markup | None:
    if len(figure.choices) < 2:
        return None
    options = [el("option", label, value=str(n)) for n, label in enumerate(figure.choices)]
    select = el("select", options, data_figure=figure.id)
    return el("div", el("label", figure.choice_label, select), class_="pick js-only")
