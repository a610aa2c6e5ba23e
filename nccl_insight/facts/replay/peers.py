"""Who is compared with whom, and what each rank takes more than its peers.

Peers of a rank are those of its role: ranks that run the same kernels and operations equally often. A node is compared
with the nodes of the same kernel name at the same place of the same step.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import numpy as np
import polars as pl

from nccl_insight.facts.replay.order import Order
from nccl_insight.facts.replay.timeline import Ints, Timeline

_ALIKE: Final = 0.95
_ALIKE_WORK: Final = 0.7
_ALIKE_ORDER: Final = 0.8
PAUSE_NS: Final = 30_000.0
"""Idle time before a node from which on it is a pause of its own, nanoseconds."""
PLACE: Final = ("role", "step", "name", "nth")
"""What nodes that are compared have in common."""


def roles(line: Timeline) -> Ints:
    """Per rank (index) the number of its role; one role for all where most ranks would be alone in theirs."""
    met = [Counter[object]() for _ in line.ranks]
    got: list[list[bool]] = [[] for _ in line.ranks]
    for rank, meeting, sends in zip(line.rank.tolist(), line.meeting.tolist(), line.sends.tolist(), strict=True):
        if meeting >= 0:
            what = line.groups[meeting]
            upwards = what.pair and line.ranks[rank] == what.members[0]
            met[rank][what.op, what.size_bytes, sends, upwards] += 1
            if what.pair and not sends:
                got[rank].append(upwards)
    ran = [Counter[int]() for _ in line.ranks]
    names, counts = np.unique(np.stack((line.rank, line.name)), axis=1, return_counts=True)
    for rank, name, count in zip(*names.tolist(), counts.tolist(), strict=True):
        ran[rank][name] = count
    found: list[list[int]] = []
    for rank in range(len(line.ranks)):
        for role in found:
            if (
                _alike(met[rank], met[role[0]]) >= _ALIKE
                and (not got[rank] or _alike(ran[rank], ran[role[0]]) >= _ALIKE_WORK)
                and _in_order(got[rank], got[role[0]])
            ):
                role.append(rank)
                break
        else:
            found.append([rank])
    numbers = np.zeros(len(line.ranks), np.int64)
    for number, role in enumerate(found):
        numbers[role] = number
    return numbers


def _alike(one: Counter[Any], other: Counter[Any]) -> float:
    most = max(one.total(), other.total())
    return (one & other).total() / most if most else 1.0


def _in_order(one: list[bool], other: list[bool]) -> bool:
    """Whether ranks receive in one order; stages of a pipeline go forward and back in orders of their own."""
    most = max(len(one), len(other))
    return sum(a == b for a, b in zip(one, other, strict=False)) >= _ALIKE_ORDER * most


def places(line: Timeline, order: Order, role: Ints) -> pl.DataFrame:
    """Per node ``node, rank, role, step, name, nth`` (of its name in the step), ``took, gap`` (ns).

    Without communication whose partners are not known, and without the pause ahead of where a rank begins.
    """
    meets = line.meeting >= 0
    rows = pl.DataFrame({
        "node": np.arange(line.start.size), "rank": line.rank, "role": role[line.rank], "step": line.step,
        "name": line.name, "took": np.where(meets, 0.0, line.end - line.start), "gap": order.gap,
    }).with_columns(nth=pl.int_range(pl.len()).over("rank", "step", "name"))  # fmt: skip
    first = np.array([np.flatnonzero(meets & (line.rank == r))[:1].sum() for r in range(len(line.ranks))])
    begins = (np.arange(line.start.size) <= first[line.rank]) & (order.gap > PAUSE_NS)
    return rows.filter(pl.Series((meets | ~line.comm) & ~begins))


def compared(line: Timeline, rows: pl.DataFrame) -> tuple[pl.DataFrame, bool]:
    """The rows with ``usual`` (the peers' median) and ``more`` than that (ns), and whether most ranks have no peers.

    Ranks without peers are all compared with each other.
    """
    alone = rows.select("role", "rank").unique().group_by("role").len().height > len(line.ranks) / 2
    if alone:
        rows = rows.with_columns(role=pl.lit(0, pl.Int64))
    sizes = rows.group_by("role").agg(of=pl.col("rank").n_unique())
    usual = (
        rows.group_by(PLACE)
        .agg(n=pl.len(), usual=pl.col("took").median(), pause=pl.col("gap").median())
        .join(sizes, on="role")
        .with_columns(
            # What most of the peers do not have is more than theirs.
            pl.when(pl.lit(not alone) & (2 * pl.col("n") <= pl.col("of"))).then(0.0).otherwise(c).alias(c)
            for c in ("usual", "pause")
        )
        .drop("n", "of")
    )
    paused = pl.when(pl.col("gap") > PAUSE_NS).then(pl.col("gap") - pl.col("pause")).otherwise(0.0)
    return rows.join(usual, on=PLACE).with_columns(more=pl.col("took") - pl.col("usual") + paused), alone


def excess_of(line: Timeline, each: pl.DataFrame) -> dict[tuple[int, int], int]:
    """What each rank takes more than its peers by rank and step (0 where there are no steps), ns."""
    inside = each.filter(pl.col("step") >= 0) if line.steps > 1 else each.with_columns(step=pl.lit(0))
    sums = inside.group_by("rank", "step").agg(pl.col("more").sum()).sort("rank", "step")
    return {(line.ranks[r], step): round(more) for r, step, more in sums.iter_rows()}
