"""Probabilities of tests on few samples: binomial, Student's t and rank-sum tails."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

_TINY: Final = 1e-300
_MOST_TERMS: Final = 300
_FEW: Final = 40


def binomial_tail(successes: int, trials: int, chance: float) -> float:
    """Probability of at least ``successes`` in ``trials`` independent trials."""
    if successes <= 0 or chance >= 1:
        return 1.0
    if chance <= 0:
        return 0.0
    terms = [
        math.lgamma(trials + 1)
        - math.lgamma(k + 1)
        - math.lgamma(trials - k + 1)
        + k * math.log(chance)
        + (trials - k) * math.log1p(-chance)
        for k in range(successes, trials + 1)
    ]
    top = max(terms, default=-math.inf)
    return min(1.0, math.exp(top) * sum(math.exp(t - top) for t in terms)) if terms else 0.0


def mean_above_zero(values: Sequence[float]) -> float:
    """Probability that values of mean zero have a mean as high as these (one-sided t test); 1.0 below 3 values."""
    if len(values) < 3:
        return 1.0
    mean, spread = statistics.fmean(values), statistics.stdev(values)
    if mean <= 0:
        return 1.0
    if spread == 0:
        return 0.0
    t, free = mean / (spread / math.sqrt(len(values))), len(values) - 1
    return 0.5 * _incomplete_beta(free / 2, 0.5, free / (free + t * t))


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


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularized incomplete beta function by its continued fraction (DLMF 8.17.22, modified Lentz)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    total = d
    for m in range(1, _MOST_TERMS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away_from_zero(1 + term * d)
            c = _away_from_zero(1 + term / c)
            total *= c * d
        if abs(c * d - 1) < 1e-12:
            break
    return math.exp(front) * total / a


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
