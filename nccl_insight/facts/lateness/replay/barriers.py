"""Meetings that no trace shows: ranks that stand idle and go on at the same moment have met on the CPU.

The loss is reduced by gloo, a store is waited for, a group was not recorded. Without them the idle time would count as
each rank's own. They are taken for met where all ranks of a role resume within a small part of the wait, though they
had come far apart.
"""

from typing import Final

import numpy as np
import polars as pl

from nccl_insight.facts.lateness.replay.timeline import Floats, Ints, Meeting, Timeline

_IDLE_NS: Final = 500_000.0
_TOGETHER: Final = 0.15
_APART: Final = 2.0
_EDGE_NS: Final = 10.0
_ANSWER_NS: Final = 10_000.0


def with_barriers(line: Timeline, role: Ints) -> Timeline:
    """The timeline with a node per rank for every such meeting."""
    rank, begin, end = _idle(line)
    made: list[tuple[int, float, float, int]] = []
    groups = list(line.groups)
    for number in np.unique(role):
        members = np.flatnonzero(role == number)
        own = np.flatnonzero(np.isin(rank, members))
        own = own[np.argsort(end[own], kind="stable")]
        at = 0
        while at < own.size:
            for part in _parts(own[at : at + members.size], end, members.size):
                rows = [(int(rank[i]), float(begin[i]), float(end[i])) for i in part]
                missing = set(members.tolist()) - {r for r, _, _ in rows}
                if len(missing) + len(rows) != members.size:
                    continue  # a rank twice
                # Who came last may not have waited at all; several of them, who met before, at least for the answer.
                last = [_nearest(line, r, float(np.median(end[part]))) for r in missing]
                answered = len(last) < 2 or min(e - b for _, b, e in last) >= _ANSWER_NS
                rows += last
                if answered and _met(np.array([b for _, b, _ in rows]), np.array([e for _, _, e in rows])):
                    made += [(r, b, e, len(groups)) for r, b, e in rows]
                    who = tuple(line.ranks[r] for r in members)
                    groups.append(Meeting("hidden barrier", None, None, who, members.size))
                    at += part.size
                    break
            else:
                at += 1
    return _joined(line, made, groups) if made else line


def _parts(rows: Ints, end: Floats, members: int) -> list[Ints]:
    """The first rows as a meeting of all members, all but one, or the half or more that go on with the first."""
    near = int(np.count_nonzero(end[rows] <= end[rows[0]] + _TOGETHER * _IDLE_NS))
    sizes = dict.fromkeys((members, members - 1, near if 2 * near >= members else 0))
    return [rows[:size] for size in sizes if 2 <= size <= rows.size]


def _nearest(line: Timeline, rank: int, at: float) -> tuple[int, float, float]:
    """Where a rank goes on nearest to a moment: rank, the end of what it did before, the start."""
    first, last = np.searchsorted(line.rank, (rank, rank + 1))
    starts = line.start[first:last]
    near = int(np.clip(np.searchsorted(starts, at), 1, starts.size - 1))
    if at - starts[near - 1] < starts[near] - at and near > 1:
        near -= 1
    # What it began just before, after the same wait, is no work of its own.
    near = max(int(np.searchsorted(starts, starts[near] - _TOGETHER * _IDLE_NS)), 1)
    before = float(line.end[first : first + near].max())
    return rank, min(before, float(starts[near])), float(starts[near])


def _met(came: Floats, went: Floats) -> bool:
    spread, wait = float(went.max() - went.min()), float(went.max() - came.min())
    apart = float(came.max() - came.min())
    return (
        spread <= _TOGETHER * wait
        and apart >= _APART * spread
        and apart >= _TOGETHER * wait
        and came.max() <= went.min()
    )


def _idle(line: Timeline) -> tuple[Ints, Floats, Floats]:
    """Long times in which a rank's GPU did nothing: rank, begin, end."""
    before = line.nodes.with_columns(before=pl.col("end").cum_max().shift(1).over("rank"))
    rows = before.filter(pl.col("start") - pl.col("before") > _IDLE_NS)
    return rows["rank"].to_numpy(), rows["before"].to_numpy(), rows["start"].to_numpy()


def _joined(line: Timeline, made: list[tuple[int, float, float, int]], groups: list[Meeting]) -> Timeline:
    rows = pl.DataFrame(made, ["rank", "start", "end", "meeting"], orient="row")
    # A step begins behind what its ranks wait for.
    step = [int(line.step[np.flatnonzero((line.rank == r) & (line.start <= begin))[-1]]) for r, begin, _, _ in made]
    new = rows.with_columns(
        pl.col("start") + _EDGE_NS,
        pl.col("end") - _EDGE_NS,
        stream=pl.col("rank") + int(line.stream.max()) + 1,
        step=pl.Series(step),
        name=pl.lit(int(line.name.max()) + 1),
        launch=pl.lit(np.nan),
        what=pl.lit(-1),
        received=pl.lit(-1),
        sends=pl.lit(False),
        comm=pl.lit(True),
    )
    nodes = pl.concat([line.nodes, new], how="diagonal_relaxed").sort("rank", "start", "end", maintain_order=True)
    return Timeline.of(nodes, line.ranks, line.hosts, tuple(groups), line.unmatched)
