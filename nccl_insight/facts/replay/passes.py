"""The replay: when every node ends, for many scenarios at once.

Nodes of a stream between two dependencies are one piece, whose length is the sum of theirs. A piece begins when the
piece before it on its stream and the one that it waits for have ended; a meeting ends its transfer time after the last
member has come. Pieces are taken in an order in which whatever they wait for comes first, each with a vector over the
scenarios (max-plus).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from nccl_insight.facts.replay.order import Order
from nccl_insight.facts.replay.timeline import Floats, Ints, Timeline

_AT_ONCE: Final = 16


@dataclass(frozen=True)
class Change:
    """What a scenario changes: gap plus duration of some nodes, transfer times of some meetings."""

    nodes: Ints
    lengths: Floats
    meetings: Ints
    transfers: Floats

    @staticmethod
    def none() -> Change:
        """Nothing."""
        return Change(np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64), np.empty(0))

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

    def __init__(self, line: Timeline, order: Order) -> None:
        """Raises ValueError where the order of the operations contradicts itself."""
        meets = line.meeting >= 0
        duration = line.end - line.start
        self.lengths: Floats = order.gap + np.where(meets, 0.0, duration)
        self.transfers: Floats = _shortest(line, duration)
        awaited = np.zeros(line.start.size, bool)
        awaited[order.other[order.other >= 0]] = True
        before = order.previous
        head = (before < 0) | (order.other >= 0) | meets | awaited[before] | meets[before]
        # Along each stream a piece reaches to the next head.
        by = np.lexsort((line.start, line.stream))
        piece = np.empty(line.start.size, np.int64)
        piece[by] = np.cumsum(head[by]) - 1
        self.piece: Ints = piece
        heads = by[head[by]]
        self._count = heads.size
        base = np.where((before[heads] < 0) & (order.other[heads] < 0), line.start[heads], 0.0)
        self._base: Floats = base
        self._previous = np.where(before[heads] >= 0, piece[before[heads]], -1).tolist()
        self._other = np.where(order.other[heads] >= 0, piece[order.other[heads]], -1).tolist()
        self._meeting = line.meeting[heads].tolist()
        self._program = self._sorted(len(line.groups))
        sums = np.bincount(piece, weights=self.lengths, minlength=self._count)
        self._fixed: Floats = sums.astype(np.float64) + base

    def _sorted(self, meetings: int) -> list[tuple[int, ...]]:
        """The pieces, what they wait for first: ``(piece, previous, other)`` and ``(-1, meeting, *members)``."""
        waits = [0] * self._count
        after: list[list[int]] = [[] for _ in range(self._count)]
        for piece, (a, b) in enumerate(zip(self._previous, self._other, strict=True)):
            for source in {a, b} - {-1}:
                after[source].append(piece)
                waits[piece] += 1
        members: list[list[int]] = [[] for _ in range(meetings)]
        for piece, meeting in enumerate(self._meeting):
            if meeting >= 0:
                members[meeting].append(piece)
        open_ = [len(m) for m in members]
        ready = [piece for piece, count in enumerate(waits) if not count]
        program: list[tuple[int, ...]] = []
        done = 0
        while ready:
            piece = ready.pop()
            program.append((piece, self._previous[piece], self._other[piece]))
            meeting = self._meeting[piece]
            ended = [piece]
            if meeting >= 0:
                open_[meeting] -= 1
                ended = [] if open_[meeting] else members[meeting]
                if ended:
                    program.append((-1, meeting, *ended))
            done += len(ended)
            for end in ended:
                for nxt in after[end]:
                    waits[nxt] -= 1
                    if not waits[nxt]:
                        ready.append(nxt)
        if done < self._count:
            raise ValueError("the order of operations contradicts itself over the ranks")
        return program

    @property
    def pieces(self) -> int:
        """How many pieces are run."""
        return self._count

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
            piece, a, b = step[0], step[1], step[2]
            if piece >= 0:
                row = end[piece]
                if b >= 0:
                    if a >= 0:
                        add(row, maximum(end[a], end[b]), row)
                    else:
                        add(row, end[b], row)
                elif a >= 0:
                    add(row, end[a], row)
            else:
                members = list(step[2:])
                end[members] = end[members].max(axis=0) + transfers[a]
        return np.asarray(end.max(axis=0))


def _shortest(line: Timeline, duration: Floats) -> Floats:
    """Per meeting the shortest member: the last to come waits for nobody."""
    found = np.full(len(line.groups), np.inf)
    meets = line.meeting >= 0
    np.minimum.at(found, line.meeting[meets], duration[meets])
    return found
