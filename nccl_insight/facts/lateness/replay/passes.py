"""The replay: when every node ends, for many scenarios at once.

Nodes of a stream between two dependencies are one piece, whose length is the sum of theirs. A piece begins when the
piece before it on its stream and the one that it waits for have ended; a meeting ends its transfer time after the last
member has come. Pieces are taken in an order in which whatever they wait for comes first, each with a vector over the
scenarios (max-plus).
"""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Final

import numpy as np

from nccl_insight.base.data import dataclass, field
from nccl_insight.facts.lateness.replay.order import Order
from nccl_insight.facts.lateness.replay.timeline import Floats, Ints, Refused, Timeline

_AT_ONCE: Final = 16


@dataclass(frozen=True)
class Change:
    """What a scenario changes: gap plus duration of some nodes, transfer times of some meetings."""

    nodes: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    lengths: Floats = field(default_factory=lambda: np.empty(0))
    meetings: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    transfers: Floats = field(default_factory=lambda: np.empty(0))

    def joined(self, other: Change) -> Change:
        """Both; where both change a node or a meeting, this one's."""
        nodes, first = np.unique(np.concatenate((self.nodes, other.nodes)), return_index=True)
        meetings, begin = np.unique(np.concatenate((self.meetings, other.meetings)), return_index=True)
        return Change(
            nodes,
            np.concatenate((self.lengths, other.lengths))[first],
            meetings,
            np.concatenate((self.transfers, other.transfers))[begin],
        )


class Replay:
    """A job that can be run again. ``lengths`` per node and ``transfers`` per meeting are those of the recording."""

    def __init__(self, line: Timeline, order: Order, *, lone_wait: bool = True) -> None:
        """Raises :class:`Refused` where the order of the operations contradicts itself.

        ``lone_wait``: whether operations whose partners were not recorded take the time that they took, or that of
        others of their kind.
        """
        meets = line.meeting >= 0
        duration = line.end - line.start
        self.transfers: Floats = _shortest(line, duration)
        taken = duration if lone_wait else _without_waiting(line, duration, self.transfers)
        self.lengths: Floats = order.gap + np.where(meets, 0.0, taken)
        awaited = np.zeros(line.start.size, bool)
        awaited[order.to] = True
        waits = np.zeros(line.start.size, bool)
        waits[order.of] = True
        before = order.previous
        head = (before < 0) | waits | meets | awaited[before] | meets[before]
        # Along each stream a piece reaches to the next head.
        by = np.lexsort((line.start, line.stream))
        piece = np.empty(line.start.size, np.int64)
        piece[by] = np.cumsum(head[by]) - 1
        self.piece: Ints = piece
        heads = by[head[by]]
        self._count = heads.size
        sources: list[set[int]] = [
            {p} if p >= 0 else set() for p in np.where(before[heads] >= 0, piece[before[heads]], -1).tolist()
        ]
        for of, to in zip(piece[order.of].tolist(), piece[order.to].tolist(), strict=True):
            sources[of].add(to)
        self._sources = [tuple(s) for s in sources]
        self._meeting = line.meeting[heads].tolist()
        self._program = self._sorted(len(line.groups))
        sums = np.bincount(piece, weights=self.lengths, minlength=self._count)
        self._fixed: Floats = np.asarray(sums, float) + np.bincount(piece, weights=order.begun, minlength=self._count)

    def _sorted(self, meetings: int) -> list[tuple[int, ...]]:
        """The pieces, what they wait for first: ``(piece, *sources)`` and ``(-1, meeting, *members)``."""
        members: list[list[int]] = [[] for _ in range(meetings)]
        for piece, meeting in enumerate(self._meeting):
            if meeting >= 0:
                members[meeting].append(piece)
        # Whoever waits for a member waits for its meeting: the number ~meeting.
        ended = [~meeting if meeting >= 0 else piece for piece, meeting in enumerate(self._meeting)]
        waits = {piece: [ended[source] for source in sources] for piece, sources in enumerate(self._sources)}
        try:
            found = list(TopologicalSorter(waits | {~m: pieces for m, pieces in enumerate(members)}).static_order())
        except CycleError as error:
            raise Refused("circle") from error
        return [(n, *self._sources[n]) if n >= 0 else (-1, ~n, *members[~n]) for n in found]

    def spans(self, changes: Sequence[Change]) -> Floats:
        """The time of the job, nanoseconds from its first start to its last end, under each change."""
        found = [self._pass(changes[at : at + _AT_ONCE]) for at in range(0, len(changes), _AT_ONCE)]
        return np.concatenate(found) if found else np.empty(0)

    def _pass(self, changes: Sequence[Change]) -> Floats:
        width = len(changes)
        lengths = np.repeat(self._fixed[:, None], width, axis=1)
        transfers = np.repeat(self.transfers[:, None], width, axis=1)
        for column, change in enumerate(changes):
            delta = change.lengths - self.lengths[change.nodes]
            np.add.at(lengths[:, column], self.piece[change.nodes], delta)
            transfers[change.meetings, column] = change.transfers
        end = lengths
        maximum, add = np.maximum, np.add
        for step in self._program:
            piece = step[0]
            if piece >= 0:
                row = end[piece]
                if len(step) == 2:
                    add(row, end[step[1]], row)
                elif len(step) == 3:
                    add(row, maximum(end[step[1]], end[step[2]]), row)
                elif len(step) > 3:
                    add(row, end[list(step[1:])].max(axis=0), row)
            else:
                members = list(step[2:])
                end[members] = end[members].max(axis=0) + transfers[step[1]]
        return np.asarray(end.max(axis=0))


def _shortest(line: Timeline, duration: Floats) -> Floats:
    """Per meeting the shortest member: the last to come waits for nobody."""
    found = np.full(len(line.groups), np.inf)
    meets = line.meeting >= 0
    np.minimum.at(found, line.meeting[meets], duration[meets])
    return found


def _without_waiting(line: Timeline, duration: Floats, transfers: Floats) -> Floats:
    """Durations, of operations without recorded partners at most the usual transfer of their kind."""
    known = np.flatnonzero((line.meeting >= 0) & (line.what >= 0))
    usual = np.full(int(line.what.max(initial=0)) + 1, np.inf)
    kinds = line.what[known]
    for kind in np.unique(kinds):
        usual[kind] = np.median(transfers[line.meeting[known[kinds == kind]]])
    alone = (line.meeting < 0) & (line.what >= 0)
    return np.asarray(np.where(alone, np.minimum(duration, usual[line.what]), duration))
