"""What bounds the delay that a rank caused: communication that the others hid, and its own waiting elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import polars as pl

from nccl_insight.facts.late import Straggler
from nccl_insight.tables.run import Run, fact

PIPELINE: Final = "pipeline"
"""Label of rows that compare the stages of a pipeline (:func:`nccl_insight.facts.lateness.stages`)."""
_ELSEWHERE: Final = 0.5


def exposed(run: Run, part: pl.DataFrame) -> pl.DataFrame:
    """``step, last, exposed_ns``: the least communication that another member of a group than ``last`` could not hide
    in a step; of steps that all members tell. ``part``: the arrivals of the group."""
    members = part["rank"].unique()
    each = _exposed(run).filter(pl.col("last").is_in(members.implode()))
    each = each.filter(pl.len().over("step") == members.len()).sort("step", "exposed_ns", "last")
    least, second = (pl.col("exposed_ns").slice(i, 1).first().over("step") for i in (0, 1))
    least_of = pl.col("last").first().over("step")
    return each.with_columns(exposed_ns=pl.when(pl.col("last") == least_of).then(second).otherwise(least))


@fact
def _exposed(run: Run) -> pl.DataFrame:
    """The same columns: the communication that each rank itself could not hide in a step."""
    steps = run.table("steps").drop_nulls(["step", "exposed_comm_ns", "rank"])
    return steps.group_by("step", last="rank").agg(exposed_ns=pl.col("exposed_comm_ns").sum())


def no_more_than_exposed(run: Run, late: Straggler) -> Straggler:
    """The straggler with a delay of at most the communication that any other rank of its group could not hide: an
    arrival that the others fill with compute costs them nothing."""
    others = run.table("steps").filter(pl.col("rank").is_in(late.group_ranks) & ~pl.col("rank").is_in(late.ranks))
    most = others.group_by("rank").agg(pl.col("exposed_comm_ns").sum())["exposed_comm_ns"].max()
    if late.group == PIPELINE or not isinstance(most, int) or not 0 < most < late.delay_ns:
        return late
    share = most / late.delay_ns
    return replace(
        late, delay_ns=most, window_share=late.window_share * share, worst_delay_ns=min(late.worst_delay_ns, most)
    )


def not_held_elsewhere(run: Run, ranks: tuple[int, ...], delay_ns: int) -> tuple[int, ...]:
    """Those of the ranks that did not wait in communication of other libraries for most of their delay.

    These kernels have no metadata, so nobody can tell who waited for whom in each; but their sum tells who waited. The
    rank for which the others wait is short in them.
    """
    excess = _excess(run)
    return tuple(r for r in ranks if excess.get(r, 0) < _ELSEWHERE * delay_ns)


def waits_as_long(rows: pl.DataFrame, late: Straggler) -> bool:
    """Whether ranks of records without times waited in other groups for most of what they were late by in this one.

    Without starts nobody can tell what came before what, so waiting elsewhere could not be taken off.
    """
    mine = rows.filter(pl.col("rank").is_in(late.ranks))
    if mine["start_ns"].null_count() < mine.height:
        return False
    members = pl.col("rank").sort().over("match_id", mapping_strategy="join")
    elsewhere = (
        rows.with_columns(among=members)
        .filter(pl.col("among") != pl.lit(sorted(late.group_ranks), pl.List(pl.Int32)))
        .join(mine.select("match_id", "rank"), on=["match_id", "rank"], how="semi")
    )
    return int(elsewhere["wait_ns"].sum()) >= _ELSEWHERE * late.delay_ns


@fact
def _excess(run: Run) -> dict[int, int]:
    """Time of each rank in kernels of other libraries beyond the shortest rank's, among ranks with as many of them."""
    rows = run.table("other_communication").filter(pl.col("rank").is_not_null())
    if rows.is_empty():
        return {}
    least = pl.col("duration_ns").min().over("kernel", "count")
    return dict(
        rows.with_columns(more=pl.col("duration_ns") - least)
        .group_by("rank")
        .agg(pl.col("more").sum())
        .sort("rank")
        .iter_rows()
    )
