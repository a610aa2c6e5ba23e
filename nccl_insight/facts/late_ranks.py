"""Tests whether a rank is late more often, or by more, than chance allows."""

from __future__ import annotations

import itertools
import math
import random
from typing import Final

import polars as pl

from nccl_insight.facts.chance import binomial_tail, mean_above_zero
from nccl_insight.facts.late import (
    ALPHA_COLLECTIVES,
    MIN_DELAY_NS,
    MIN_SHARE,
    MIN_STEPS,
    OUTLIER,
    OUTLIER_SHARE,
    Scale,
    Straggler,
    growth,
    material,
    step_tops,
)

_ALPHA_STEPS: Final = 0.05
_ALPHA_SURE: Final = 1e-6
_ALPHA_MEAN: Final = 0.001
_FEW_STEPS: Final = 8
_LEAST_FOR_MEAN: Final = 3
_DRAWS: Final = 20_000
_STRONG_SHARE: Final = 0.5
_CLEARLY: Final = 0.5
_OUTLYING_STEPS: Final = "outlying steps"


def often_last(events: pl.DataFrame, scale: Scale) -> tuple[Straggler, ...]:
    """Single ranks of one group that are last more often, or by more, than chance allows."""
    total = int(events["delay_ns"].sum())
    if not total or not scale.window:
        return ()
    steps = events["step"].drop_nulls().n_unique()
    by_step = steps >= MIN_STEPS
    units = step_tops(events) if by_step else events
    limit = OUTLIER * max(float(units["delay_ns"].median() or 0), MIN_DELAY_NS)  # type: ignore[arg-type]
    outliers = units.filter(pl.col("delay_ns") > limit)
    found: list[Straggler] = []
    sums = events.group_by("last").agg(pl.col("delay_ns").sum(), worst=pl.col("delay_ns").max())
    for rank, delay, worst in sums.sort("delay_ns", "last", descending=[True, False]).iter_rows():
        if not material(delay, worst, scale):
            continue
        once = events.filter(pl.col("last") != rank)["delay_ns"].max()
        shares = delay / total, delay / max(1, total - int(once or 0))  # type: ignore[arg-type]
        verdict = _verdict(events, units, outliers, rank, shares, scale, by_step)
        if verdict is None:
            continue
        times, trials, p_value, chance, unit = verdict
        some = unit == _OUTLYING_STEPS
        late_in = outliers.filter(pl.col("last") == rank)["step"].sort().to_list() if some else ()
        found.append(
            Straggler((rank,), times, trials, unit, chance, p_value, int(delay), delay / total, delay / scale.window,
                      int(worst), scale.by_clock, steps=tuple(late_in), of_steps=steps if some else 0)
        )  # fmt: skip
    return tuple(found)


def slow_members(rows: pl.DataFrame, events: pl.DataFrame, scale: Scale, halves: bool = False) -> tuple[Straggler, ...]:
    """Ranks of one group that are later than its median in step after step: one, or several that hide each other.

    The excess over the median of the others is summed by step (or taken by collective) and its mean tested against
    zero. Several such ranks count as one: their delay is the time from the last rank that is none of them. They are
    fewer than the others, or with ``halves`` as many, if they stand clearly apart.
    """
    n = rows["rank"].n_unique()
    if scale.on_cpu or not scale.window or n < 2:
        return ()
    by_step = rows["step"].drop_nulls().n_unique() >= _LEAST_FOR_MEAN
    unit = "step" if by_step else "match_id"
    kept = rows.filter(pl.col(unit).is_not_null())
    middle = pl.col("limit_ns").median().over("match_id")
    if n == 2:
        middle = pl.col("limit_ns").min().over("match_id")
    sums = (
        kept.with_columns(excess=pl.col("own_ns") - middle)
        .group_by("rank", unit)
        .agg(pl.col("excess").sum())
        .sort("rank", unit)
    )
    if n == 2:  # the other one's excess is the measure, or jitter would make both positive
        sums = sums.with_columns(excess=2 * pl.col("excess") - pl.col("excess").sum().over(unit))
    late: list[tuple[int, float]] = []
    for (rank,), part in sums.group_by("rank", maintain_order=True):
        values = [float(v) for v in part["excess"].to_list()]
        p_value = min(1.0, scale.ranks * mean_above_zero(values))
        if p_value <= _ALPHA_MEAN and material(int(sum(values)), int(max(values)), scale):
            late.append((int(str(rank)), p_value))
    if not late or 2 * len(late) > n:
        return ()
    ranks = tuple(r for r, _ in late)
    if n > 2 and 2 * len(late) == n and not (halves and not scale.pipeline and _apart(sums, ranks)):
        return ()
    among = pl.col("rank").is_in(ranks)
    cost = (
        rows.group_by("match_id", "step")
        .agg(
            own=pl.col("own_ns").filter(among).max(),
            other=pl.col("limit_ns").filter(~among).max(),
            since=pl.col("since").first(),
            start_ns=pl.col("start_ns").min(),
        )
        .sort("start_ns", "match_id")
        .with_columns(delay=pl.max_horizontal(pl.col("own") - pl.col("other"), 0))
        .with_columns(delay=growth(pl.col("delay"), ["since"]))
    )
    delay, worst = int(cost["delay"].sum()), int(cost["delay"].max() or 0)  # type: ignore[arg-type]
    if not material(delay, worst, scale):
        return ()
    units = cost.group_by("step").agg(pl.col("delay").sum()) if by_step else cost
    times = int((units["delay"] > 0).sum())
    total = max(int(events["delay_ns"].sum()), delay)
    return (
        Straggler(ranks, times, units.height, "steps" if by_step else "collectives", len(ranks) / n,
                  max(p for _, p in late), delay, delay / total, delay / scale.window, worst, scale.by_clock),
    )  # fmt: skip


def _apart(sums: pl.DataFrame, ranks: tuple[int, ...]) -> bool:
    """Whether the later half of a group stands clearly apart from the other: by more than it differs in itself."""
    means = sums.group_by("rank").agg(pl.col("excess").mean())
    late = means.filter(pl.col("rank").is_in(ranks))["excess"]
    others = means.filter(~pl.col("rank").is_in(ranks))["excess"]
    gap = float(late.min()) - float(others.max())  # type: ignore[arg-type]
    return gap >= _CLEARLY * (float(late.mean()) - float(others.mean()))  # type: ignore[arg-type]


def _verdict(
    events: pl.DataFrame, units: pl.DataFrame, outliers: pl.DataFrame, rank: int, shares: tuple[float, float],
    scale: Scale, by_step: bool,
) -> tuple[int, int, float, float, str] | None:  # fmt: skip
    """(times last, trials, corrected p, chance, unit) of the first test that the rank passes.

    ``shares`` of all delay: as it is, and without the longest single delay by another rank. The second decides where
    chance is out of the question: a profiler that starts late on one rank can exceed all other delays together.
    Successive collectives of CPU processes are not independent (the scheduler favours one for a while), so single
    ones are counted against the strict level.
    """
    n = scale.ranks
    unit = "steps" if by_step else "collectives"
    alpha = _ALPHA_STEPS if by_step else _ALPHA_SURE if scale.on_cpu else ALPHA_COLLECTIVES
    share, without_longest = shares
    times, chance = tally(units, rank)
    p_value = min(1.0, n * binomial_tail(times, units.height, chance))
    sure = p_value <= _ALPHA_SURE and without_longest >= MIN_SHARE
    if sure or (p_value <= alpha and share >= MIN_SHARE):
        return times, units.height, p_value, chance, unit
    if by_step and units.height < _FEW_STEPS and share >= _STRONG_SHARE:
        p_value = min(1.0, n * _chance_of_delay(events, rank))
        if p_value <= _ALPHA_STEPS:
            return times, units.height, p_value, chance, unit
    times, chance = tally(outliers, rank)
    if outliers.height >= 3 and times >= OUTLIER_SHARE * outliers.height:
        p_value = min(1.0, n * binomial_tail(times, outliers.height, chance))
        if p_value <= ALPHA_COLLECTIVES:
            return times, outliers.height, p_value, chance, f"outlying {unit}"
    return None


def _chance_of_delay(events: pl.DataFrame, rank: int) -> float:
    """Probability that one rank drawn anew in each step has caused as much delay in sum as this rank did.

    For few steps this says more than counting them, because it weighs how long the delays were. Exact up to
    ``_DRAWS`` combinations, drawn with a fixed seed beyond.
    """
    sums = events.filter(pl.col("step").is_not_null()).group_by("step", "last").agg(pl.col("delay_ns").sum())
    sums = sums.sort("step", "last")  # the draws go by position
    sizes = dict(events.group_by("step").agg(pl.col("members").max()).iter_rows())
    observed = int(sums.filter(pl.col("last") == rank)["delay_ns"].sum())
    steps: list[list[int]] = []
    for (step,), part in sums.group_by("step", maintain_order=True):
        delays = part["delay_ns"].to_list()
        steps.append(delays + [0] * max(0, sizes[step] - len(delays)))
    total = math.prod(len(step) for step in steps)
    if total <= _DRAWS:
        return sum(sum(drawn) >= observed for drawn in itertools.product(*steps)) / total
    draw = random.Random(0)
    hits = sum(sum(draw.choice(step) for step in steps) >= observed for _ in range(_DRAWS))
    return (hits + 1) / (_DRAWS + 1)


def tally(units: pl.DataFrame, rank: int) -> tuple[int, float]:
    """How often the rank is the last, and how often any one member would be by chance."""
    if units.is_empty():
        return 0, 1.0
    chance = units.select((1.0 / pl.col("members")).mean()).item()
    return int((units["last"] == rank).sum()), float(chance)
