"""A process group and where its ranks stand, as one source tells it: what :mod:`nccl_insight.facts.waitfor` reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import polars as pl

# Between two ranks: the numbers of a group's sends and receives differ by rank.
_PAIRS: Final = ("SEND", "RECV", "COALESCED")
UNNAMED: Final = "?"
"""The name of a group where no line names it."""


@dataclass(frozen=True)
class Instance:
    """One process group: where its ranks stand, and its members in the job as far as they are known.

    ``rows``: ``rank`` (in the group), ``global_rank``, ``last_enqueued``, ``last_completed``, ``timed_out_seq`` (the
    oldest operation that the rank waits in), ``op``, ``input_id``, ``line``; of dumps also ``label`` (the operation
    and its sizes), ``inside`` (false where the GPU has not come to it) and ``joint`` (no member finishes it before
    all have come). ``world``: ranks are those of the job. ``comparable``: the rows are of one group, and its numbers
    can be compared. ``whole``: it has no other members. ``listed``: lists of all operations made
    the rows, which leave no doubt. ``proof``: what their own numbers prove of ranks that have issued less.
    """

    name: str
    rows: pl.DataFrame
    members: frozenset[int]
    world: bool
    comparable: bool
    whole: bool = True
    listed: bool = False
    proof: str = "enqueued"

    def ranks(self, rows: pl.DataFrame) -> frozenset[int]:
        """The ranks of rows, those of the job where they are known."""
        return frozenset(numbers(rows, self.world))

    @cached_property
    def waits(self) -> pl.DataFrame:
        """The rows of ranks that wait in one of its collectives."""
        pairs = pl.col("op").is_in(list(_PAIRS)).fill_null(False)
        inside = pl.col("inside") if self.listed else True
        return self.rows.filter(pl.col("timed_out_seq").is_not_null() & ~pairs & inside)

    @cached_property
    def behind(self) -> pl.DataFrame:
        """The rows of ranks that do not finish what another one has finished."""
        waits = self.waits
        reached = pl.coalesce("timed_out_seq", pl.col("last_completed") + 1)
        high = self.rows.select(reached.max()).item() if self.listed else waits["timed_out_seq"].max()
        if not isinstance(high, int):
            return waits.clear()
        late = waits.filter(pl.col("timed_out_seq") < high)
        if self.listed:
            return late.filter(pl.col("joint"))
        unnamed = self.name == UNNAMED and not waits.filter(pl.col("op").is_not_null()).height
        ahead = waits.filter(pl.col("timed_out_seq") > (waits["timed_out_seq"].min() or 0))
        late = waits.filter(pl.col("timed_out_seq") == waits["timed_out_seq"].min()) if late.height else late
        # Where the ranks behind have issued what the others wait in, all wait for the older operation of somebody.
        issued = late["last_enqueued"].drop_nulls().min()
        caught_up = isinstance(issued, int) and issued >= high and ahead.height * 2 <= waits.height
        return late.clear() if unnamed or caught_up or late.height * 2 > waits.height else late

    @cached_property
    def inside(self) -> pl.DataFrame:
        """The rows of ranks that wait for others, and are not behind themselves."""
        return self.waits.join(self.behind, on=["rank", "global_rank"], how="anti", nulls_equal=True)

    @cached_property
    def low(self) -> int | None:
        """The number of the oldest collective that ranks wait in."""
        low = self.inside["timed_out_seq"].min()
        return low if isinstance(low, int) else None

    @cached_property
    def entered(self) -> frozenset[int]:
        """The ranks known to have come to its oldest collective."""
        if self.low is None:
            return frozenset()
        reached = (pl.col("timed_out_seq") >= self.low) | (pl.col("last_enqueued") >= self.low)
        return self.ranks(self.rows.filter(reached.fill_null(False))) - self.outside

    @cached_property
    def outside(self) -> frozenset[int]:
        """The ranks that have issued its oldest collective, and whose GPU has not come to it."""
        if not self.listed or self.low is None:
            return frozenset()
        return self.ranks(self.rows.filter((pl.col("timed_out_seq") == self.low) & ~pl.col("inside")))

    @cached_property
    def never(self) -> pl.DataFrame:
        """The rows of ranks that have not issued its oldest collective, by their own words."""
        rows = self.rows.filter(pl.col("timed_out_seq").is_null() & (pl.col("last_enqueued") < (self.low or 0)))
        return rows if rows.height < self.rows.height else rows.clear()

    @property
    def complete(self) -> bool:
        """Whether all members wait in one collective, so that its data does not move."""
        waits = self.waits
        joint = not self.listed or bool(waits["joint"].all())
        told = self.members & self.ranks(self.rows) if self.listed else self.members
        of_all = len(told) > 1 and told <= self.entered
        return self.comparable and joint and of_all and waits.height > 1 and waits["timed_out_seq"].n_unique() == 1

    @property
    def sound(self) -> bool:
        """Whether half of the members or more came, so that the others are late and not these astray."""
        return len(self.entered & self.members) * 2 >= len(self.members)


def numbers(rows: pl.DataFrame, world: bool) -> tuple[int, ...]:
    """The ranks of rows, those of the job first; a job has thousands of groups, too small for expressions."""
    own, other = ("global_rank", "rank") if world else ("rank", "global_rank")
    both = zip(rows[own].to_list(), rows[other].to_list(), strict=True)
    return tuple(sorted({n for one, two in both if (n := two if one is None else one) is not None}))
