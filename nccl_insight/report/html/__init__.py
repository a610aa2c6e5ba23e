"""The HTML report: one self-contained file that is complete without JavaScript and never uses the network."""

from typing import Literal

from nccl_insight.base.errors import UsageError
from nccl_insight.base.model import Analysis
from nccl_insight.report import figures as figure_set
from nccl_insight.report.html.details import settings
from nccl_insight.report.html.figures import drawn, drawn_one
from nccl_insight.report.html.findings import WORDS, cards, proof
from nccl_insight.report.html.markup import fill
from nccl_insight.report.html.page import page
from nccl_insight.report.html.summary import bars, job_facts
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
    body = fill(
        "report.html",
        analysis=analysis,
        view=view,
        command=command,
        first=drawn_one(first, [first], analysis.findings, interactive=interactive) if first else None,
        figures=drawn(rest, analysis.findings, interactive=interactive),
        cards=cards(analysis, view.context, figures),
        wording=WORDS,
        facts=job_facts(analysis.job),
        bars=bars(analysis.coverage),
        settings=settings(view.environment) if view.environment else (),
    )
    return page(analysis, body, figures, js)
