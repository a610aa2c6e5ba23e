"""Steps that became slower from a moment on, and whose work it is."""

import math
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final, Literal

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.tables.run import Run

_LEAST_SIDE: Final = 5
_SHARE_OF_GROWTH: Final = 0.5
_SHARE_OF_OTHERS: Final = 0.25
_CHANCE: Final = 0.001
_CHANCE_OF_A_JUMP: Final = 0.05
_JUMP: Final = 5.0
"""Times the spread of the steps on either side: growth that is no chance even where few steps stand on each side."""
_MOST_CUTS: Final = 400
_RUNS_NEAR: Final = 3
_FEW: Final = 40

Where = Literal["ranks", "compute", "communication", "idle", "unknown"]
_KINDS: Final[dict[Where, str]] = {"compute": "compute_ns", "communication": "exposed_comm_ns", "idle": "idle_ns"}


@dataclass(frozen=True)
class Regression:
    """Steps from ``step`` on (the first slow one, of ``after`` steps) take longer than the ``before`` steps ahead.

    ``where``: ``ranks`` (the computing of these ranks grew, that of the others did not), ``compute`` (of all),
    ``communication`` (exposed, of all), ``idle`` (of all) or ``unknown``. Times are medians over steps of the median
    over ranks.
    """

    step: int
    before: int
    after: int
    before_ns: int
    after_ns: int
    where: Where
    ranks: tuple[int, ...]

    @property
    def ratio(self) -> float:
        """Time of a slow step over that of a step before."""
        return self.after_ns / self.before_ns


def regression(run: Run, least_ratio: float) -> Regression | None:
    """The moment from which steps stay slower by ``least_ratio``, to the end of the recording; None without one.

    The moment is the one that separates the steps best. It counts where at least five steps stand on each side, and
    a step after it is longer than one before it more often than chance allows (Mann-Whitney test, corrected for
    the moments that were tried); for a jump of five times the spread a weaker level suffices.
    """
    steps = run.table("steps").filter(
        pl.col("step").is_not_null() & pl.col("rank").is_not_null() & (pl.col("duration_ns") > 0)
    )
    if steps["step"].n_unique() < 2 * _LEAST_SIDE:
        return None
    by_step = steps.group_by("step").agg(pl.col("duration_ns").median()).sort("step")
    numbers = by_step["step"].to_list()
    times = [float(t) for t in by_step["duration_ns"].to_list()]
    cut = slower_from(times, least_ratio)
    if cut is None:
        return None
    before, after = statistics.median(times[:cut]), statistics.median(times[cut:])
    where, ranks = _where(steps, numbers[cut], after - before)
    return Regression(numbers[cut], cut, len(times) - cut, round(before), round(after), where, ranks)


def slower_from(times: list[float], least_ratio: float) -> int | None:
    """The first of the times from which they stay longer by ``least_ratio``; None where that is chance, or too few."""
    if len(times) < 2 * _LEAST_SIDE:
        return None
    cut = _cut(times)
    before, after = statistics.median(times[:cut]), statistics.median(times[cut:])
    if after < least_ratio * before:
        return None
    jump = after - before >= _JUMP * max(_spread(times[:cut]), _spread(times[cut:]))
    chance = larger_by_chance(times[:cut], times[cut:]) * len(times)
    return None if chance > (_CHANCE_OF_A_JUMP if jump else _CHANCE) else cut


def _cut(times: list[float]) -> int:
    """Where the times fall into two parts of least spread (sum of absolute deviations from the parts' medians).

    Long recordings are first cut in runs of steps, by the medians of the runs, then step by step near that cut; a
    change within the first or last three runs is then not seen.
    """
    width = -(-len(times) // _MOST_CUTS)
    if width == 1:
        return _best_cut(times, _LEAST_SIDE)
    runs = [statistics.median(times[at : at + width]) for at in range(0, len(times), width)]
    near = (_best_cut(runs, _RUNS_NEAR) - _RUNS_NEAR) * width
    return near + _best_cut(times[near : near + 2 * _RUNS_NEAR * width], _LEAST_SIDE)


def _best_cut(times: list[float], least: int) -> int:
    cuts = range(least, len(times) - least + 1)
    return min(cuts, key=lambda cut: cut * _spread(times[:cut]) + (len(times) - cut) * _spread(times[cut:]))


def _spread(part: list[float]) -> float:
    """Mean absolute deviation from the median."""
    middle = statistics.median(part)
    return sum(abs(t - middle) for t in part) / len(part)


def _where(steps: pl.DataFrame, first: int, growth_ns: float) -> tuple[Where, tuple[int, ...]]:
    """Which kind of time grew, and on which ranks if on some only."""
    late = pl.col("step") >= first
    grown = (
        steps.group_by("rank")
        .agg((pl.col(k).filter(late).median() - pl.col(k).filter(~late).median()).alias(k) for k in _KINDS.values())
        .sort("rank")
    )
    own = grown.filter(pl.col("compute_ns") >= _SHARE_OF_GROWTH * growth_ns)
    others = grown.filter(pl.col("compute_ns") < _SHARE_OF_OTHERS * growth_ns)
    if own.height and others.height and own.height + others.height == grown.height:
        return "ranks", tuple(own["rank"].to_list())
    for kind, column in _KINDS.items():
        middle = grown[column].median()
        if isinstance(middle, int | float) and middle >= _SHARE_OF_GROWTH * growth_ns:
            return kind, ()
    return "unknown", ()


def larger_by_chance(before: Sequence[float], after: Sequence[float]) -> float:
    """Probability that values of one kind have those after so often above those before (Mann-Whitney U test).

    Exact for up to 40 values, where the normal approximation is too large by powers of ten; ties then count against it.
    """
    ordered = sorted(before)
    pairs = len(before) * len(after)
    wins = sum((bisect_left(ordered, a) + bisect_right(ordered, a)) / 2 for a in after)
    if len(before) + len(after) <= _FEW:
        ways = _ways(len(before), len(after))
        return sum(ways[math.floor(wins) :]) / sum(ways)
    spread = math.sqrt(pairs * (len(before) + len(after) + 1) / 12)
    return 0.5 * math.erfc((wins - 0.5 - pairs / 2) / spread / math.sqrt(2))


def _ways(n: int, m: int) -> list[int]:
    """In how many orders of n + m values the m have 0, 1, ... n * m wins: Gaussian binomial coefficients."""
    ways = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        for wins in range(n * m, m + i - 1, -1):
            ways[wins] -= ways[wins - m - i]
        for wins in range(i, n * m + 1):
            ways[wins] += ways[wins - i]
    return ways
