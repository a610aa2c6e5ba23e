"""Who is compared with whom, and what each rank takes more than its peers.

Peers of a rank are those of its role: ranks that run the same kernels and operations equally often. A node is compared
with the nodes of the same kernel name at the same place of the same step.
"""

from collections import Counter
from typing import Any, Final

import numpy as np
import polars as pl

from nccl_insight.facts.lateness.replay.order import Order
from nccl_insight.facts.lateness.replay.timeline import Bools, Ints, Timeline

_ALIKE: Final = 0.95
_ALIKE_WORK: Final = 0.7
_ALIKE_ORDER: Final = 0.8
_TURNS: Final = 0.02
_WANDERS: Final = 1.25
_SURELY: Final = 2.5
PLACE: Final = ("role", "step", "name", "nth")
"""What nodes that are compared have in common."""


def roles(line: Timeline) -> Ints:
    """Per rank (index) the number of its role; one role for all where most ranks would be alone in theirs."""
    common = _in_common(line)
    met = _counts(line, line.what, common & (line.what >= 0))
    ran = _counts(line, line.name, common)
    by = np.lexsort((np.where(np.isfinite(line.launch), line.launch, line.start), line.rank))
    by = by[common[by] & (line.received[by] >= 0)]
    got = [line.received[by[line.rank[by] == rank]] for rank in range(len(line.ranks))]
    found: list[list[int]] = []
    for rank in range(len(line.ranks)):
        for role in found:
            if (
                _alike(met[rank], met[role[0]]) >= _ALIKE
                and (not got[rank].size or _alike(ran[rank], ran[role[0]]) >= _ALIKE_WORK)
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


def _in_common(line: Timeline) -> Bools:
    """Which nodes stand in steps that all ranks recorded; all of them where there are none."""
    ranks = pl.DataFrame({"step": line.step, "rank": line.rank}).select(pl.col("rank").n_unique().over("step"))
    common = (line.step >= 0) & (ranks["rank"].to_numpy() == len(line.ranks))
    return common if common.any() else np.ones(line.step.size, bool)


def _counts(line: Timeline, kinds: Ints, of: Bools) -> list[Counter[int]]:
    return [Counter(kinds[of & (line.rank == rank)].tolist()) for rank in range(len(line.ranks))]


def _alike(one: Counter[Any], other: Counter[Any]) -> float:
    most = max(one.total(), other.total())
    return (one & other).total() / most if most else 1.0


def _in_order(one: Ints, other: Ints) -> bool:
    """Whether ranks receive in one order; stages of a pipeline go forward and back in orders of their own."""
    most, both = max(one.size, other.size), min(one.size, other.size)
    return int((one[:both] == other[:both]).sum()) >= _ALIKE_ORDER * most


def nodes_of(line: Timeline, order: Order, role: Ints) -> pl.DataFrame:
    """Per node ``node, rank, role, step, name, nth`` (of its name in the step), ``took, gap`` (ns).

    Without communication whose partners are not known.
    """
    meets = line.meeting >= 0
    took = np.where(meets, 0.0, line.end - line.start)
    known = {"node": np.arange(line.start.size), "rank": line.rank, "role": role[line.rank], "step": line.step}
    rows = pl.DataFrame({**known, "name": line.name, "took": took, "gap": order.gap})
    rows = rows.with_columns(nth=pl.int_range(pl.len()).over("rank", "step", "name"))
    return rows.filter(pl.Series(meets | ~line.comm))


def compared(line: Timeline, rows: pl.DataFrame) -> tuple[pl.DataFrame, bool]:
    """The rows with ``usual`` (the peers' median) and ``more`` than that (ns), ``long`` (:func:`_with_lengths`), and
    whether most ranks have no peers.

    Ranks without peers are all compared with each other.
    """
    alone = rows.select("role", "rank").unique().group_by("role").len().height > len(line.ranks) / 2
    if alone:
        rows = rows.with_columns(role=pl.lit(0, pl.Int64))
    sizes = rows.group_by("role", "step").agg(of=pl.col("rank").n_unique())
    usual = (
        rows.group_by(PLACE)
        .agg(n=pl.len(), usual=pl.col("took").median(), pause=pl.col("gap").median())
        .join(sizes, on=["role", "step"])
        .with_columns(
            # What most of the peers do not have is more than theirs.
            pl.when(pl.lit(not alone) & (2 * pl.col("n") <= pl.col("of"))).then(0.0).otherwise(c).alias(c)
            for c in ("usual", "pause")
        )
        .drop("n", "of")
    )
    each = _with_lengths(line, rows.join(usual, on=PLACE))
    # Of two the median is the mean, and the other is as far from it on its other side.
    twice = pl.when((pl.len().over(PLACE) == 2) & (pl.col("rank").n_unique().over("role", "step") == 2)).then(2)
    more = (pl.col("took") - pl.col("usual") + pl.col("gap") - pl.col("pause")) * twice.otherwise(1)
    return each.with_columns(more=more), alone


def by_lengths(rows: pl.DataFrame, whose: str) -> pl.DataFrame:
    """``step, long, slower`` of those whose work is longer or shorter than ``usual`` from one step to the next, and not
    from some step on: how many times as long it is in a step, and in all, where that is not by chance."""
    steps = rows.filter(pl.col("step") >= 0).group_by(whose, "step")
    by_step = steps.agg(pl.col("took", "usual").sum()).sort(whose, "step")
    by_step = by_step.with_columns(long=pl.col("took") / pl.col("usual"))
    turn, mean = pl.col("long").diff().abs().mean(), pl.col("took").sum() / pl.col("usual").sum()
    turn, mean = turn.over(whose), mean.over(whose)
    wanders = by_step.filter(turn > _TURNS, pl.col("long").std().over(whose) < _WANDERS * turn)
    surely = (mean - 1).abs() > _SURELY * turn / pl.len().over(whose).sqrt()
    return wanders.with_columns(slower=pl.when(surely).then(mean).otherwise(1.0))


def pipelines(line: Timeline) -> pl.DataFrame:
    """``rank`` (index), ``first``: the first of those that it exchanges transfers with, directly or over others."""
    index = {rank: at for at, rank in enumerate(line.ranks)}
    pairs = [[index[r] for r in members] for members in {g.members for g in line.groups if g.pair}]
    first, before = np.arange(len(index)), np.empty(0, np.int64)
    while not np.array_equal(first, before):
        before = first.copy()
        for members in pairs:
            first[members] = first[members].min()
    return pl.DataFrame({"rank": np.arange(first.size), "first": first})


def _with_lengths(line: Timeline, each: pl.DataFrame) -> pl.DataFrame:
    """With ``long`` (times), how long the micro-batches of a step are, which all ranks of a pipeline handle, and
    ``usual`` as long as that."""
    each = each.join(pipelines(line), on="rank", maintain_order="left")
    ranks = each.group_by("first", "rank", "step").agg(took=pl.col("took").sum() / pl.col("usual").sum())
    shared = ranks.group_by("first", "step").agg(pl.col("took").median(), usual=pl.lit(1.0), n=pl.len())
    known = by_lengths(shared.filter(pl.col("n") > 2), "first")
    long = known.select("first", "step", long=pl.col("long") / pl.col("slower"))
    each = each.join(long, on=["first", "step"], how="left", maintain_order="left")
    each = each.drop("first").with_columns(pl.col("long").fill_null(1.0))
    return each.with_columns(usual=pl.col("usual") * pl.col("long"))


def excess_of(line: Timeline, each: pl.DataFrame) -> dict[tuple[int, int], int]:
    """What each rank takes more than its peers by rank and step (0 where there are no steps), ns."""
    inside = each.filter(pl.col("step") >= 0) if line.steps > 1 else each.with_columns(step=pl.lit(0))
    sums = inside.group_by("rank", "step").agg(pl.col("more").sum()).sort("rank", "step")
    return {(line.ranks[r], step): round(more) for r, step, more in sums.iter_rows()}
