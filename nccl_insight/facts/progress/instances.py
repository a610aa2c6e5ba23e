"""A process group and where its ranks stand, as one source tells it: what ``waitfor`` reads."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.words import words

PAIRS: Final = ("SEND", "RECV", "COALESCED")
"""Operations between two ranks: the numbers of a group's sends and receives differ by rank."""
_CELLS: Final = words("rank global_rank last_enqueued last_completed timed_out_seq op inside joint")
UNNAMED: Final = "?"
"""The name of a group where no line names it."""


@dataclass(frozen=True)
class Instance:
    """One process group: where its ranks stand, and its members in the job as far as they are known.

    ``rows``: ``rank`` (in the group), ``global_rank``, ``last_enqueued``, ``last_completed``, ``timed_out_seq`` (the
    oldest operation that the rank waits in), ``op``, ``input_id``, ``line``; of dumps also ``label`` (the operation
    and its sizes), ``inside`` (false where the GPU has not come to it) and ``joint`` (no member finishes it before
    all have come). ``world``: ranks are those of the job. ``comparable``: the rows are of one group, and its numbers
    can be compared. ``whole``: it has no other members; ``larger``: its numbers fit a larger one, too. ``listed``:
    lists of all operations made the rows, which leave no doubt. ``proof``: what their own numbers prove of ranks that
    have issued less.
    """

    name: str
    rows: pl.DataFrame
    members: frozenset[int]
    world: bool
    comparable: bool
    whole: bool = True
    larger: bool = False
    listed: bool = False
    proof: str = "enqueued"

    def ranks(self, rows: pl.DataFrame) -> frozenset[int]:
        """The ranks of rows, those of the job where they are known."""
        told = zip(*(rows[c].to_list() for c in _order(self.world)), strict=True)
        return frozenset(r for own, other in told if (r := other if own is None else own) is not None)

    @cached_property
    def _cells(self) -> dict[str, list[Any]]:
        """The columns as lists: a job has thousands of groups, each too small for expressions."""
        found = ((name, self.rows.get_column(name, default=None)) for name in _CELLS)
        return {name: column.to_list() for name, column in found if column is not None}

    @cached_property
    def _waits(self) -> list[int]:
        seqs, ops = self._cells["timed_out_seq"], self._cells["op"]
        inside = self._cells["inside"] if self.listed else [True] * len(seqs)
        told = enumerate(zip(seqs, ops, inside, strict=True))
        return [n for n, (seq, op, here) in told if seq is not None and op not in PAIRS and here]

    @cached_property
    def _behind(self) -> list[int]:
        seqs, waits = self._cells["timed_out_seq"], self._waits
        if not waits or self.listed:
            return self._behind_ends() if waits else []
        high, low = max(seqs[n] for n in waits), min(seqs[n] for n in waits)
        late = [n for n in waits if seqs[n] == low < high]
        # Where no line names the group, operations of two kinds are those of two groups.
        ops = {self._cells["op"][n] for n in waits}
        unnamed = self.name == UNNAMED and (ops == {None} or len(ops) > 1)
        # Where the ranks behind have issued what the others wait in, all wait for the older operation of somebody.
        issued = [last for n in late if (last := self._cells["last_enqueued"][n]) is not None]
        caught_up = min(issued, default=-1) >= high and len(late) * 2 >= len(waits)
        return [] if unnamed or caught_up or len(late) * 2 > len(waits) else late

    def _behind_ends(self) -> list[int]:
        """Who waits, by lists of all operations, in one that another rank has finished or is beyond."""
        seqs, done, joint = (self._cells[name] for name in ("timed_out_seq", "last_completed", "joint"))
        ended = (last + 1 for seq, last in zip(seqs, done, strict=True) if seq is None and last is not None)
        high = max([*ended, *(seq for seq in seqs if seq is not None)])
        return [n for n in self._waits if seqs[n] < high and joint[n]]

    @cached_property
    def _inside(self) -> list[int]:
        who = list(zip(self._cells["rank"], self._cells["global_rank"], strict=True))
        behind = {who[n] for n in self._behind}
        return [n for n in self._waits if who[n] not in behind]

    def _those(self, at: Iterable[int]) -> frozenset[int]:
        """The ranks of rows by their places."""
        own, other = (self._cells[c] for c in _order(self.world))
        return frozenset(r for n in at if (r := other[n] if own[n] is None else own[n]) is not None)

    @cached_property
    def waits(self) -> pl.DataFrame:
        """The rows of ranks that wait in one of its collectives."""
        return self.rows[self._waits]

    @cached_property
    def standing(self) -> frozenset[int]:
        """The ranks that wait in any operation, sends and receives included."""
        return self._those(n for n, seq in enumerate(self._cells["timed_out_seq"]) if seq is not None)

    @cached_property
    def paired(self) -> frozenset[int]:
        """The ranks that wait in a send or a receive."""
        told = enumerate(zip(self._cells["timed_out_seq"], self._cells["op"], strict=True))
        return self._those(n for n, (seq, op) in told if seq is not None and op in PAIRS)

    @cached_property
    def behind(self) -> pl.DataFrame:
        """The rows of ranks that do not finish what another one has finished."""
        return self.rows[self._behind]

    @cached_property
    def inside(self) -> pl.DataFrame:
        """The rows of ranks that wait for others, and are not behind themselves."""
        return self.rows[self._inside]

    @cached_property
    def low(self) -> int | None:
        """The number of the oldest collective that ranks wait in."""
        return min((self._cells["timed_out_seq"][n] for n in self._inside), default=None)

    @cached_property
    def entered(self) -> frozenset[int]:
        """The ranks known to have come to its oldest collective."""
        low = self.low
        if low is None:
            return frozenset()
        told = enumerate(zip(self._cells["timed_out_seq"], self._cells["last_enqueued"], strict=True))
        return self._those(n for n, two in told if any(seq is not None and seq >= low for seq in two)) - self.outside

    @cached_property
    def lacking(self) -> frozenset[int]:
        """The members not known to have come to its oldest collective; none where nobody waits in one."""
        return self.members - self.entered if self.low is not None else frozenset()

    @cached_property
    def between(self) -> frozenset[int]:
        """Of those it lacks the members whatever its size: where that is guessed, none behind the ranks that spoke."""
        last = max(self.ranks(self.rows), default=-1)
        return self.lacking if self.whole else frozenset(r for r in self.lacking if r <= last)

    @property
    def first_s(self) -> float | None:
        """When the first rank gave up waiting in one of its collectives, where a line tells."""
        return earliest(self.waits)

    @cached_property
    def outside(self) -> frozenset[int]:
        """The ranks that have issued its oldest collective, and whose GPU has not come to it."""
        if not self.listed or self.low is None:
            return frozenset()
        told = enumerate(zip(self._cells["timed_out_seq"], self._cells["inside"], strict=True))
        return self._those(n for n, (seq, inside) in told if seq == self.low and inside is False)

    @cached_property
    def _never(self) -> list[int]:
        low, told = self.low, enumerate(zip(self._cells["timed_out_seq"], self._cells["last_enqueued"], strict=True))
        rows = [n for n, (seq, last) in told if seq is None and None not in (low, last) and last < low]
        return rows if len(rows) < self.rows.height else []

    @cached_property
    def never(self) -> pl.DataFrame:
        """The rows of ranks that have not issued its oldest collective, by their own words."""
        return self.rows[self._never]

    @cached_property
    def ranks_behind(self) -> frozenset[int]:
        """The ranks of ``behind``."""
        return self._those(self._behind)

    @cached_property
    def ranks_inside(self) -> frozenset[int]:
        """The ranks of ``inside``."""
        return self._those(self._inside)

    @cached_property
    def ranks_never(self) -> frozenset[int]:
        """The ranks of ``never``."""
        return self._those(self._never)

    @property
    def complete(self) -> bool:
        """Whether all members wait in one collective, so that its data does not move."""
        joint = not self.listed or all(self._cells["joint"][n] is not False for n in self._waits)
        of_all = len(self.members) > 1 and self.members <= self.entered
        seqs = {self._cells["timed_out_seq"][n] for n in self._waits}
        return self.comparable and joint and of_all and len(self._waits) > 1 and len(seqs) == 1

    @property
    def sound(self) -> bool:
        """Whether half of the members or more came, so that the others are late and not these astray."""
        return len(self.entered & self.members) * 2 >= len(self.members)


def earliest(rows: pl.DataFrame) -> float | None:
    """The least of the times of rows, in seconds since 1970; None where none has one."""
    return min(rows["time_s"].drop_nulls().to_list(), default=None)


def _order(world: bool) -> tuple[str, str]:
    return ("global_rank", "rank") if world else ("rank", "global_rank")
