"""Who waits for whom in matched collectives."""

from collections.abc import Mapping

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.facts.lateness.waiting import awaited, matched
from nccl_insight.tables.run import Run

_COLLECTIVES = 60
_MOST = 0.8


@dataclass(frozen=True)
class Member:
    """A rank's part in a collective, which is number ``collective`` of those shown; ``last``: it came last."""

    rank: int
    collective: int
    op: str
    start_ns: int
    duration_ns: int
    wait_ns: int
    last: bool


@dataclass(frozen=True)
class Waits:
    """Waiting in all matched collectives, and the parts of ranks in those shown.

    ``of_rank``: what each rank waits. ``for_rank``: what the others wait for each. ``times_last``: in how many
    collectives each comes last; ``unseen_ns``: of the waiting for whom the others wait most, the part in its first
    collective. ``step``: the step that is shown, one that is usual of those in which the others wait
    most for one rank, None for all; ``cut``: its first collectives only. ``clocks``: the ranks have one clock.
    """

    total_ns: int
    collectives: int
    unseen_ns: int
    of_rank: Mapping[int, int]
    for_rank: Mapping[int, int]
    times_last: Mapping[int, int]
    step: int | None
    cut: bool
    shown: int
    clocks: bool
    members: tuple[Member, ...]


def waits(run: Run) -> Waits | None:
    """Waiting of the ranks, None where no collective of two ranks was matched."""
    rows = matched(run)
    if rows["rank"].n_unique() < 2:
        return None
    for_rank = dict(awaited(run).select("rank", "wait_ns").sort("rank").iter_rows())
    step = _step(rows, for_rank)
    shown = rows if step is None else rows.filter(pl.col("step") == step)
    every = shown["match_id"].unique(maintain_order=True).to_list()
    ids = {match: n for n, match in enumerate(every[:_COLLECTIVES])}
    shown = shown.filter(pl.col("match_id").is_in(list(ids)))
    columns = ("rank", "match_id", pl.col("op").cast(pl.String), "start_ns", "duration_ns", "wait_ns", "last")
    return Waits(
        total_ns=sum(for_rank.values()),
        collectives=rows["match_id"].n_unique(),
        unseen_ns=awaited(run)["unseen_ns"][0],
        of_rank=dict(rows.group_by("rank").agg(pl.col("wait_ns").sum()).sort("rank").iter_rows()),
        for_rank=for_rank,
        times_last=dict(rows.filter(pl.col("last")).group_by("rank").len().iter_rows()),
        step=step,
        cut=len(every) > len(ids),
        shown=len(ids),
        clocks=shown["skew_ns"].null_count() == 0,
        members=tuple(
            Member(rank, ids[match], op, start, took, wait, last)
            for rank, match, op, start, took, wait, last in shown.select(columns).iter_rows()
        ),
    )


def _step(rows: pl.DataFrame, for_rank: Mapping[int, int]) -> int | None:
    """The middle one of the steps that hold most of the waiting for the rank that is waited for most."""
    if rows["step"].drop_nulls().n_unique() < 2:
        return None
    late = rows.filter(pl.col("last") & (pl.col("rank") == max(for_rank, key=lambda r: for_rank[r])))
    waits = rows.filter(pl.col("match_id").is_in(late["match_id"].to_list()) & pl.col("step").is_not_null())
    by_step = waits.group_by("step").agg(pl.col("wait_ns").sum()).sort("wait_ns", "step", descending=[True, False])
    most = by_step.filter(pl.col("wait_ns").cum_sum().shift(1, fill_value=0) < _MOST * pl.col("wait_ns").sum())
    usual = (most if most.height else rows.select("step").drop_nulls().unique().sort("step"))["step"]
    return int(usual[len(usual) // 2])
