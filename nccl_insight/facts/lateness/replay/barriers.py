"""Meetings that no trace shows: ranks that stand idle and go on at the same moment have met on the CPU.

The loss is reduced by gloo, a store is waited for, a group was not recorded. Without them the idle time would count as
each rank's own. They are taken for met where all ranks of a role resume within a small part of the wait, though they
had come far apart.
"""

from dataclasses import replace
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
    before = pl.DataFrame({"rank": line.rank, "start": line.start, "end": line.end}).select(
        "rank", "start", before=pl.col("end").cum_max().shift(1).over("rank")
    )
    rows = before.filter(pl.col("start") - pl.col("before") > _IDLE_NS)
    return rows["rank"].to_numpy(), rows["before"].to_numpy(), rows["start"].to_numpy()


def _joined(line: Timeline, made: list[tuple[int, float, float, int]], groups: list[Meeting]) -> Timeline:
    rank = np.concatenate((line.rank, [m[0] for m in made])).astype(np.int64)
    start = np.concatenate((line.start, [m[1] + _EDGE_NS for m in made]))
    end = np.concatenate((line.end, [m[2] - _EDGE_NS for m in made]))
    lane = line.stream.max() + 1 + np.array([m[0] for m in made])
    # A step begins behind what its ranks wait for.
    step = [int(line.step[np.flatnonzero((line.rank == m[0]) & (line.start <= m[1]))[-1]]) for m in made]
    by = np.lexsort((end, start, rank))
    return replace(
        line,
        rank=rank[by],
        stream=np.concatenate((line.stream, lane))[by],
        step=np.concatenate((line.step, step)).astype(np.int64)[by],
        name=np.concatenate((line.name, np.full(len(made), line.name.max() + 1)))[by],
        start=start[by],
        end=end[by],
        launch=np.concatenate((line.launch, np.full(len(made), np.nan)))[by],
        meeting=np.concatenate((line.meeting, [m[3] for m in made])).astype(np.int64)[by],
        what=np.concatenate((line.what, np.full(len(made), -1)))[by],
        received=np.concatenate((line.received, np.full(len(made), -1)))[by],
        sends=np.concatenate((line.sends, np.zeros(len(made), bool)))[by],
        comm=np.concatenate((line.comm, np.ones(len(made), bool)))[by],
        groups=tuple(groups),
    )
