"""Probability of a rank-sum test on few samples."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

_FEW: Final = 40


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
