"""What each node of a timeline waited for: the one before it on its stream, and others on other streams.

Where launches are recorded, what a stream waits for follows from their order: a kind of node that never starts before
what was launched last before it on another stream has ended waits for it, whether it came too late this time or not.
Beside this, one at most is taken from times: a start within a few microseconds of an end on another stream is taken for
a dependency if it stands at the same place of half of the steps; elsewhere several ends near a start are coincidences
of ranks in lockstep, so only the last one binds. A stream that was idle without such an end was waiting for the host,
which itself went on when the GPU had done what was last.
"""

import itertools
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.facts.lateness.replay.timeline import Bools, Floats, Ints, Timeline

_NEAR_NS: Final = 5_000.0
_BEHIND_NS: Final = 200.0
# Records of whole operations (hundreds of milliseconds) are less exact than those of kernels: shares of the usual one.
_NEAR: Final = 0.002
_BEHIND: Final = 0.0005
_MOST_STREAMS: Final = 24
PAUSE_NS: Final = 30_000.0
"""Idle time before a node from which on it is a pause of its own, nanoseconds."""
_MOST_LAUNCHED: Final = 8
_MOST_AHEAD: Final = 3
_AHEAD_NS: Final = 50_000.0
_BOUND: Final = 0.02
_KEPT: Final = 0.995


@dataclass(frozen=True)
class Order:
    """Per node ``previous`` on its stream (-1: none) and the ``gap`` after all that it waits for.

    ``begun``: what stands ahead of where a rank's recording begins, beside what it pauses there in other steps, too.
    ``of, to``: nodes, and what each waits for on other streams.
    """

    previous: Ints
    gap: Floats
    begun: Floats
    of: Ints
    to: Ints


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
    always_of, always_to = _by_launch(line, own_end, near, behind)
    np.maximum.at(own_end, always_of, line.end[always_to])
    late = own_end < line.start - near
    bound = _last(line, of[sure], to[sure], near)
    loose = _last(line, of, to, near)
    bound = np.where((bound < 0) & late, loose, bound)
    bound = np.where((bound < 0) & late, latest, bound)
    other_end = np.where(bound >= 0, line.end[bound], -np.inf)
    binds = np.flatnonzero(other_end > own_end)
    before = np.maximum(own_end, other_end)
    gap = np.where(np.isfinite(before), line.start - before, line.start)
    begun = _begun(line, gap)
    return Order(
        previous, gap - begun, begun, np.concatenate((always_of, binds)), np.concatenate((always_to, bound[binds]))
    )


def _begun(line: Timeline, gap: Floats) -> Floats:
    """Of the pauses up to a rank's first meeting what is no habit: longer than at the same place of two other steps."""
    met = np.where(line.meeting >= 0, np.arange(line.start.size), line.start.size)
    first = np.full(len(line.ranks), line.start.size)
    np.minimum.at(first, line.rank, met)
    at = np.flatnonzero((np.arange(line.start.size) <= first[line.rank]) & (gap > PAUSE_NS))
    rows = pl.DataFrame({"rank": line.rank, "step": line.step, "name": line.name, "gap": gap}).with_columns(
        nth=pl.int_range(pl.len()).over("rank", "step", "name")
    )
    own = rows[at].with_columns(node=pl.Series(at))
    others = own.join(rows, on=["rank", "name", "nth"], how="left").filter(pl.col("step") != pl.col("step_right"))
    usual = others.group_by("node").agg(usual=pl.col("gap_right").top_k(2).min(), n=pl.len()).filter(pl.col("n") > 1)
    begun = np.zeros(line.start.size)
    begun[at] = gap[at]
    node = usual["node"].to_numpy()
    begun[node] = np.maximum(gap[node] - usual["usual"].to_numpy(), 0.0)
    return begun


def _by_launch(line: Timeline, own_end: Floats, near: float, behind: float) -> tuple[Ints, Ints]:
    """Nodes, and what they wait for on other streams whenever they run, by the order of launches."""
    sources = int(line.what.max(initial=-1)) + 2
    found: list[tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], Ints]] = []
    for lane in _ranges(line.rank):
        streams = [nodes[np.isfinite(line.launch[nodes])] for nodes in _by_stream(line.stream[lane], lane.start)]
        streams = sorted((nodes for nodes in streams if nodes.size), key=len, reverse=True)[:_MOST_LAUNCHED]
        for waits, others in itertools.permutations(streams, 2):
            at = np.searchsorted(line.launch[others], line.launch[waits]) - 1
            # Where launches do not run ahead, they come in the order of starts and tell nothing beyond the last.
            ahead = float(np.median(line.start[others] - line.launch[others])) > _AHEAD_NS
            for back in range(_MOST_AHEAD if ahead else 1):
                of, to = waits[at >= back], others[at[at >= back] - back]
                kind = ((line.name[of] * 2 + line.sends[of]) * sources + line.what[to] + 1) * _MOST_AHEAD + back
                found.append((of.astype(np.int32), to.astype(np.int32), kind))
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    of, to, kind = (np.concatenate(part) for part in zip(*found, strict=True))
    kinds, which = np.unique(kind, return_inverse=True)
    after = line.start[of] - line.end[to]
    kept = after >= -behind
    binds = (np.abs(after) <= near) & (line.end[to] > own_end[of])
    # All ranks run one program: what holds for a kind of node holds on each of them.
    count, bound = np.bincount(which), np.bincount(which, weights=binds)
    holds = (np.bincount(which, weights=kept) >= _KEPT * count) & (bound >= np.maximum(2, _BOUND * count))
    sure = holds[which] & kept
    rows = pl.DataFrame({"of": of[sure], "to": to[sure], "back": (kinds % _MOST_AHEAD)[which[sure]]}).with_columns(
        stream=pl.Series(line.stream[to[sure]])
    )
    first = rows.sort("back").unique(["of", "stream"], keep="first")
    return first["of"].to_numpy().astype(np.int64), first["to"].to_numpy().astype(np.int64)


def _ranges(rank: Ints) -> list[slice]:
    return [slice(part[0], part[-1] + 1) for part in _by_stream(rank, 0)]


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
    pairs = {"a": line.stream[of], "b": line.stream[to], "i": place[of], "j": place[to]}
    votes = pl.DataFrame({**pairs, "same": line.step[of] == line.step[to]}).select(pl.len().over(*pairs, "same"))
    return votes.to_series().to_numpy() >= max(2, 0.5 * steps)


def _last(line: Timeline, of: Ints, to: Ints, near: float) -> Ints:
    """Of the candidates of each node the one that ended last."""
    found = np.full(line.start.size, -1, np.int64)
    # Who goes on waited for what came, not for what left beside it.
    by = np.argsort(line.end[to] - near * line.sends[to], kind="stable")
    found[of[by]] = to[by]
    return found
