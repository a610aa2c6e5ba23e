"""All that the HTML reports of a run and of a comparison show beside the analysis."""

from collections.abc import Mapping, Sequence
from typing import Final

from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Analysis, Finding
from nccl_insight.tables.run import Run
from nccl_insight.views.environment import Environment, Notes, environment, notes
from nccl_insight.views.figures import Figures, figures
from nccl_insight.views.matrix import Matrix, matrix
from nccl_insight.views.node import Nodes, nodes

#: Findings that a page shows in full, evidence that it shows of each, and lines before and after.
FINDINGS: Final = 40
EVIDENCE: Final = 6
AROUND: Final = 2


@dataclass(frozen=True)
class Page:
    """Figures, versions and settings (None where no log tells them), notes, and the lines around the evidence."""

    figures: Figures
    environment: Environment | None
    notes: Notes
    context: Mapping[tuple[str, int], str]


def page(run: Run, analysis: Analysis) -> Page:
    """What the report of this analysis shows of the run."""
    return Page(figures(run), environment(run), notes(run), _context(run, analysis.findings))


def _context(run: Run, findings: Sequence[Finding]) -> Mapping[tuple[str, int], str]:
    """Text of the lines around the evidence that a page shows, by (path, line), as far as they can be read back."""
    inputs = dict(run.table("inputs").select("path", "input_id").iter_rows())
    wanted = {
        (inputs[e.input], line): e.input
        for item in findings[:FINDINGS]
        for e in item.evidence[:EVIDENCE]
        if e.line and e.input in inputs
        for line in range(max(1, e.line - AROUND), e.line + AROUND + 1)
    }
    found = run.reader.lines(sorted(wanted))
    return {(wanted[key], key[1]): text for key, text in found.items() if key in wanted}


@dataclass(frozen=True)
class Structure:
    """Nodes and transports of a run, as far as they are known."""

    nodes: Nodes | None
    matrix: Matrix | None


def structure(run: Run) -> Structure:
    """Nodes and transports of a run."""
    return Structure(nodes(run), matrix(run))
