"""Figures on the page: each with its drawing, and the findings that it shows."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from markupsafe import Markup

from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Finding, Severity
from nccl_insight.report.figures.base import Figure
from nccl_insight.report.figures.chart import chart
from nccl_insight.report.html.findings import related
from nccl_insight.views.page import FINDINGS

_LINKED = 6


@dataclass(frozen=True)
class Drawn:
    """A figure, its drawing, and the findings that it shows; ``interactive``: scripts run."""

    figure: Figure
    drawing: Markup
    findings: tuple[Finding, ...]
    interactive: bool

    @property
    def live(self) -> bool:
        """Whether plotly draws over the drawing."""
        return self.interactive and self.figure.plot is not None


def drawn(figures: Sequence[Figure], findings: Sequence[Finding] = (), *, interactive: bool) -> list[Drawn]:
    """The figures with links to the findings; the last narrow one is wide where it would stand beside a hole."""
    narrow = [n for n, figure in enumerate(figures) if not figure.wide]
    alone = narrow[-1] if len(narrow) % 2 else -1
    whole = [replace(f, wide=True) if n == alone else f for n, f in enumerate(figures)]
    return [drawn_one(f, whole, findings, interactive=interactive) for f in whole]


def drawn_one(figure: Figure, figures: Sequence[Figure], findings: Sequence[Finding], *, interactive: bool) -> Drawn:
    """One of the figures by itself, with links to the findings that it shows."""
    plotted = chart(figure.plot, figure.title, figure.size, wide=figure.wide) if figure.plot and not figure.svg else ""
    return Drawn(figure, Markup(figure.svg or plotted), _shown(figure, figures, findings), interactive)


def _shown(figure: Figure, figures: Sequence[Figure], findings: Sequence[Finding]) -> tuple[Finding, ...]:
    first: dict[str, Finding] = {}
    for finding in findings[:FINDINGS]:
        if finding.severity is not Severity.INFO and figure.id in {r.id for r in related(finding, figures)}:
            first.setdefault(finding.code, finding)
    return tuple(islice(first.values(), _LINKED))
