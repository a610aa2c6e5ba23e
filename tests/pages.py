"""Pages and figures of a run, made as the command line makes them."""

from __future__ import annotations

from collections.abc import Sequence

from nccl_insight.base.model import Analysis
from nccl_insight.report import html
from nccl_insight.report.figures import build as draw
from nccl_insight.report.figures.base import Figure
from nccl_insight.tables.run import Run
from nccl_insight.views.figures import figures
from nccl_insight.views.page import page


def render(analysis: Analysis, run: Run, *, js: str = "inline", command: str | None = None) -> str:
    """The HTML report."""
    return html.render(analysis, page(run, analysis), js=js, command=command)


def build(analysis: Analysis, run: Run) -> Sequence[Figure]:
    """The figures of the report."""
    return draw(analysis, figures(run))
