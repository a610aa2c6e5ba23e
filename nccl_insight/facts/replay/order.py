"""What each node of a timeline waited for: the one before it on its stream, and at most one on another.

A start within a few microseconds of an end on another stream is taken for a dependency if it stands at the same place
of half of the steps; elsewhere several ends near a start are coincidences of ranks in lockstep, so only the last one
binds. A stream that was idle without such an end was waiting for the host, which itself went on when the GPU had done
what was last.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from nccl_insight.facts.replay.timeline import Bools, Floats, Ints, Timeline

_NEAR_NS: Final = 5_000.0
_BEHIND_NS: Final = 200.0
# Records of whole operations (hundreds of milliseconds) are less exact than those of kernels: shares of the usual one.
_NEAR: Final = 0.002
_BEHIND: Final = 0.0005
_MOST_STREAMS: Final = 24


@dataclass(frozen=True)
class Order:
    """Per node: ``previous`` on its stream and ``other`` on another (-1: none), and ``gap`` after the later of both."""

    previous: Ints
    other: Ints
    gap: Floats


def order(line: Timeline) -> Order:
    """The dependencies of all nodes."""
    size = line.start.size
    usual = float(np.median((line.end - line.start)[line.meeting < 0])) if (line.meeting < 0).any() else 0.0
    near, behind = max(_NEAR_NS, _NEAR * usual), max(_BEHIND_NS, _BEHIND * usual)
    previous = np.full(size, -1, np.int64)
    latest = np.full(size, -1, np.int64)
    near_of: list[Ints] = []
    near_to: list[Ints] = []
    for lane in _ranges(line.rank):
        streams = _by_stream(line.stream[lane], lane.start)
        for nodes in streams:
            previous[nodes[1:]] = nodes[:-1]
        begin = np.arange(lane.start, lane.stop)
        for nodes in sorted(streams, key=len, reverse=True)[:_MOST_STREAMS]:
            ends = np.maximum.accumulate(line.end[nodes])
            foreign = begin[line.stream[lane] != line.stream[nodes[0]]]
            at = np.searchsorted(ends, line.start[foreign] + behind, side="right") - 1
            ok = at >= 0
            foreign, found = foreign[ok], nodes[at[ok]]
            ok = line.start[found] < line.start[foreign]
            foreign, found = foreign[ok], found[ok]
            later = (latest[foreign] < 0) | (line.end[found] > line.end[latest[foreign]])
            latest[foreign[later]] = found[later]
            close = line.end[found] >= line.start[foreign] - near
            near_of.append(foreign[close])
            near_to.append(found[close])
    of, to = np.concatenate(near_of), np.concatenate(near_to)
    sure = _usual(line, of, to)
    own_end = np.where(previous >= 0, line.end[previous], -np.inf)
    late = own_end < line.start - near
    bound = _last(line, of[sure], to[sure], near)
    loose = _last(line, of, to, near)
    bound = np.where((bound < 0) & late, loose, bound)
    bound = np.where((bound < 0) & late, latest, bound)
    other_end = np.where(bound >= 0, line.end[bound], -np.inf)
    bound = np.where(other_end > own_end, bound, -1)
    before = np.maximum(own_end, np.where(bound >= 0, other_end, -np.inf))
    gap = np.where(np.isfinite(before), line.start - before, 0.0)
    return Order(previous, bound, gap)


def _ranges(rank: Ints) -> list[slice]:
    cuts = np.flatnonzero(np.diff(rank)) + 1
    edges = [0, *cuts.tolist(), rank.size]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def _by_stream(stream: Ints, first: int) -> list[Ints]:
    by = np.argsort(stream, kind="stable")
    cuts = np.flatnonzero(np.diff(stream[by])) + 1
    return [part + first for part in np.split(by, cuts)]


def _usual(line: Timeline, of: Ints, to: Ints) -> Bools:
    """Which candidates stand at the same place in half of the steps, at least in two."""
    place = (
        pl.DataFrame({"stream": line.stream, "step": line.step})
        .select(pl.int_range(pl.len()).over("stream", "step"))
        .to_series()
        .to_numpy()
    )
    steps = line.steps
    votes = pl.DataFrame({
        "a": line.stream[of], "b": line.stream[to], "i": place[of], "j": place[to],
        "same": line.step[of] == line.step[to],
    }).select(pl.len().over("a", "b", "i", "j", "same"))  # fmt: skip
    return votes.to_series().to_numpy() >= max(2, 0.5 * steps)


def _last(line: Timeline, of: Ints, to: Ints, near: float) -> Ints:
    """Of the candidates of each node the one that ended last."""
    found = np.full(line.start.size, -1, np.int64)
    # Who goes on waited for what came, not for what left beside it.
    by = np.argsort(line.end[to] - near * line.sends[to], kind="stable")
    found[of[by]] = to[by]
    return found
