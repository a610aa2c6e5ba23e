"""Which nodes measure with which, so that one bad node, NIC or cable shows after few rounds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

Pair = tuple[int, int]
_LEAST_ROUNDS = 3
_SLOW = 0.7
_MOST_GROUPS = 1024
_MOST_OF = 2 / 3


@dataclass(frozen=True)
class Measurement:
    """Bus bandwidth (GB/s, 1e9) that two nodes reached together while the other pairs of the round did the same."""

    round: int
    first: int
    second: int
    busbw_gbps: float


@dataclass(frozen=True)
class Suspects:
    """Nodes, and pairs of otherwise good nodes, clearly below ``typical_gbps`` (the median of all pairs)."""

    nodes: tuple[tuple[int, float], ...]
    pairs: tuple[Measurement, ...]
    typical_gbps: float


def rounds(nodes: int) -> list[list[Pair]]:
    """Perfect matchings: in each round every node has one partner (with an odd number one rests), never twice the same.

    The circle method gives ``nodes - 1`` rounds; of these, about ``log2(nodes)``, spread evenly, and at least three
    if there are so many, which is enough to tell a bad node from a bad partner.
    """
    if nodes < 2:
        return []
    ring = list(range(nodes)) + ([-1] if nodes % 2 else [])
    count = len(ring)
    every = []
    for turn in range(count - 1):
        turned = [ring[0], *(ring[1 + (i + turn) % (count - 1)] for i in range(count - 1))]
        pairs = [(turned[i], turned[count - 1 - i]) for i in range(count // 2)]
        every.append(sorted((min(p), max(p)) for p in pairs if -1 not in p))
    wanted = min(len(every), max(_LEAST_ROUNDS, math.ceil(math.log2(nodes))))
    return [every[i * len(every) // wanted] for i in range(wanted)]


def rails(sizes: Sequence[int], turns: int) -> int:
    """How many ranks per node measure with their like of the partner: all, unless that takes too many groups."""
    least = min(sizes, default=0)
    return least if least > 1 and least * len(sizes) // 2 * turns <= _MOST_GROUPS else 0


def suspects(measured: Sequence[Measurement]) -> Suspects:
    """Who is slow: a node if most of its pairs are, else the pair.

    Two nodes alone cannot be told apart; their pair is compared with nothing and never suspect.
    """
    if len(measured) < 2:
        return Suspects((), (), measured[0].busbw_gbps if measured else 0.0)
    typical = statistics.median(m.busbw_gbps for m in measured)
    slow = [m for m in measured if m.busbw_gbps < _SLOW * typical]
    own: dict[int, list[Measurement]] = {}
    for m in measured:
        own.setdefault(m.first, []).append(m)
        own.setdefault(m.second, []).append(m)
    bad: list[tuple[int, float]] = []
    left = list(slow)
    # The node with the most slow pairs explains those of its partners, so it is taken out before they are judged.
    while left:
        counts = {n: sum(n in (m.first, m.second) for m in left) for n in own}
        worst = max(counts, key=lambda n: (counts[n] / len(own[n]), counts[n], -n))
        if counts[worst] < 2 or counts[worst] < _MOST_OF * len(own[worst]):
            break
        bad.append((worst, statistics.median(m.busbw_gbps for m in own[worst])))
        left = [m for m in left if worst not in (m.first, m.second)]
    return Suspects(tuple(sorted(bad)), tuple(left), typical)
