"""Figures of a run: a sentence and a table each, and a plot or a drawing that shows them."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from nccl_insight.base.model import Analysis
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
from nccl_insight.views.figures import Figures

V = TypeVar("V")


def build(analysis: Analysis, views: Figures) -> Sequence[Figure]:
    """The figures that the run has data for, in the order of the report."""

    def of(draw: Callable[[Analysis, V], Figure | None], view: V | None) -> Figure | None:
        return None if view is None else draw(analysis, view)

    found = (
        of(node.node_diagram, views.node),
        journey.journey(analysis),
        None if views.groups is None else groups.groups(views.groups),
        of(waits.who_waits, views.waits),
        of(tiles.tile_map, views.cluster),
        of(matrix.matrix, views.matrix),
        of(rings.rings, views.rings),
        of(trees.trees, views.trees),
        of(nics.nic_use, views.nics),
        of(memory.memory, views.memory),
        of(ranks.comparison, views.ranks),
        of(ranks.init_timing, views.init),
        of(activity.calls, views.calls),
        of(timeline.steps, views.steps),
        of(timeline.timeline, views.timeline),
        of(timeline.gaps, views.gaps),
        of(traces.durations, views.durations),
        of(traces.bandwidth, views.busbw),
        of(copies.host, views.host_copies),
        of(copies.peers, views.peer_copies),
        traces.mends(analysis),
        of(traces.excess, views.excess),
    )
    return [figure for figure in found if figure is not None]
