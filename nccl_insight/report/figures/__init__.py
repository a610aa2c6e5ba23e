"""Figures of a run: plain plotly dictionaries with a sentence and a table behind each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

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
from nccl_insight.views import calls as call_views
from nccl_insight.views import cluster as cluster_views
from nccl_insight.views import copies as copy_views
from nccl_insight.views import groups as group_views
from nccl_insight.views import matrix as matrix_views
from nccl_insight.views import memory as memory_views
from nccl_insight.views import nics as nic_views
from nccl_insight.views import node as node_views
from nccl_insight.views import ranks as rank_views
from nccl_insight.views import rings as ring_views
from nccl_insight.views import steps as step_views
from nccl_insight.views import timeline as time_views
from nccl_insight.views import traces as trace_views
from nccl_insight.views import trees as tree_views
from nccl_insight.views import waits as wait_views

Builder = Callable[[Analysis, Run], "Figure | None"]
V = TypeVar("V")


def _of(view: Callable[[Run], V | None], draw: Callable[[Analysis, V], Figure | None]) -> Builder:
    """A figure of what a view shows; none where there is nothing to show."""

    def build(analysis: Analysis, run: Run) -> Figure | None:
        shown = view(run)
        return None if shown is None else draw(analysis, shown)

    return build


BUILDERS: tuple[Builder, ...] = (
    _of(node_views.nodes, node.node_diagram),
    lambda analysis, run: journey.journey(analysis),
    _of(group_views.groups, groups.groups),
    _of(wait_views.waits, waits.who_waits),
    _of(cluster_views.cluster, tiles.tile_map),
    _of(matrix_views.matrix, matrix.matrix),
    _of(ring_views.rings, rings.rings),
    _of(tree_views.trees, trees.trees),
    _of(nic_views.gpu_nics, nics.nic_use),
    _of(memory_views.memory, memory.memory),
    _of(rank_views.metrics, ranks.comparison),
    _of(rank_views.init_times, ranks.init_timing),
    _of(call_views.calls, activity.calls),
    _of(step_views.steps, timeline.steps),
    _of(time_views.timeline, timeline.timeline),
    _of(time_views.gaps, timeline.gaps),
    _of(trace_views.durations, traces.durations),
    _of(trace_views.bandwidth, traces.bandwidth),
    _of(copy_views.host_copies, copies.host),
    _of(copy_views.peer_copies, copies.peers),
    _of(trace_views.stragglers, traces.stragglers),
    _of(trace_views.longest_waits, traces.longest_waits),
)


def build(analysis: Analysis, run: Run) -> Sequence[Figure]:
    """The figures that the run has data for, in the order of the report."""
    return [figure for builder in BUILDERS if (figure := builder(analysis, run)) is not None]
