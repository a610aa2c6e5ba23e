"""The HTML report: one self-contained file that is complete without JavaScript and never uses the network."""

from typing import Literal

from nccl_insight.base.errors import UsageError
from nccl_insight.base.model import Analysis
from nccl_insight.report import figures as figure_set
from nccl_insight.report.html.details import environment, gaps, outputs, provenance
from nccl_insight.report.html.figures import figure_panel, figure_section
from nccl_insight.report.html.findings import findings, proof
from nccl_insight.report.html.markup import el, join
from nccl_insight.report.html.page import page
from nccl_insight.report.html.summary import summary
from nccl_insight.views.page import Page

JsMode = Literal["inline", "cdn", "none"]


def render(analysis: Analysis, view: Page, *, js: JsMode | str = "inline", command: str | None = None) -> str:
    """The report as one HTML document; the same analysis and view always give the same bytes.

    Args:
        analysis: what was found.
        view: figures, settings and versions, and the lines around the evidence (:func:`nccl_insight.views.page.page`).
        js: ``inline`` embeds the chart library, ``cdn`` links it, ``none`` leaves out all scripts; the
            report holds the same facts in each case.
        command: the command line to show; values that look like secrets are masked.

    Raises:
        UsageError: ``js`` is none of these.
    """
    if js not in ("inline", "cdn", "none"):
        raise UsageError(f"--js {js}: must be inline, cdn or none")
    figures = figure_set.build(analysis, view.figures)
    interactive = js != "none"
    first = proof(analysis, figures)
    rest = [f for f in figures if f is not first]
    body = join(
        [
            el(
                "div",
                summary(analysis, figure_panel(first, interactive, analysis.findings), wide=first.wide)
                if first
                else summary(analysis),
            ),
            findings(analysis, view.context, figures) if analysis.findings else None,
            figure_section(rest, interactive=interactive, findings=analysis.findings) if rest or not first else None,
            environment(view.environment) if view.environment else None,
            outputs(analysis),
            gaps(analysis, view.notes),
            provenance(analysis, command),
        ]
    )
    return page(analysis, body, figures, js)
