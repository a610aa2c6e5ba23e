"""Figures of a run: plain plotly dictionaries with a sentence and a table behind each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nccl_insight.model import Analysis
from nccl_insight.report.figures import (
    activity,
    copies,
    groups,
    journey,
    matrix,
    memory,
    nics,
    node,
    ranks,
    rings,
    tiles,
    timeline,
    traces,
    trees,
    waits,
)
from nccl_insight.report.figures.base import Figure
from nccl_insight.tables.run import Run

Builder = Callable[[Analysis, Run], "Figure | None"]
BUILDERS: tuple[Builder, ...] = (
    node.node_diagram,
    journey.journey,
    groups.groups,
    waits.who_waits,
    tiles.tile_map,
    matrix.matrix,
    rings.rings,
    trees.trees,
    nics.nic_use,
    memory.memory,
    ranks.comparison,
    ranks.init_timing,
    activity.calls,
    timeline.steps,
    timeline.timeline,
    timeline.gaps,
    traces.durations,
    traces.bandwidth,
    copies.host,
    copies.peers,
    traces.stragglers,
    traces.longest_waits,
)


def build(analysis: Analysis, run: Run) -> Sequence[Figure]:
    """The figures that the run has data for, in the order of the report."""
    return [figure for builder in BUILDERS if (figure := builder(analysis, run)) is not None]
