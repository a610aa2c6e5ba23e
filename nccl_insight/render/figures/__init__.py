"""Figures of a run: plain plotly dictionaries with a sentence and a table behind each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nccl_insight.model import Analysis
from nccl_insight.render.figures import activity, cluster, graphs, ranks, traces
from nccl_insight.render.figures.base import Figure
from nccl_insight.run import Run

Builder = Callable[[Analysis, Run], "Figure | None"]
BUILDERS: tuple[Builder, ...] = (
    cluster.cluster_map, cluster.matrix, graphs.rings, graphs.trees, ranks.nic_use, ranks.comparison, ranks.init_timing,
    activity.calls, traces.steps, traces.timeline, traces.durations, traces.bandwidth, traces.stragglers,
)  # fmt: skip


def build(analysis: Analysis, run: Run) -> Sequence[Figure]:
    """The figures that the run has data for, in the order of the report."""
    return [figure for builder in BUILDERS if (figure := builder(analysis, run)) is not None]
