"""All that the HTML report shows beside the analysis."""

from collections.abc import Mapping

from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Analysis
from nccl_insight.tables.run import Run
from nccl_insight.views.context import context
from nccl_insight.views.environment import Environment, Notes, environment, notes
from nccl_insight.views.figures import Figures, figures


@dataclass(frozen=True)
class Page:
    """Figures, versions and settings (None where no log tells them), notes, and the lines around the evidence."""

    figures: Figures
    environment: Environment | None
    notes: Notes
    context: Mapping[tuple[str, int], str]


def page(run: Run, analysis: Analysis) -> Page:
    """What the report of this analysis shows of the run."""
    return Page(figures(run), environment(run), notes(run), context(run, analysis.findings))
