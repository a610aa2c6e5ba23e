"""Which nodes measure with which, so that one bad node, NIC or cable shows after few rounds."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nccl_insight.base.data import dataclass, replace
from nccl_insight.base.grouping import grouped

Pair = tuple[int, int]
#: A single rank is numbered by its node times this and its local rank.
RAIL: Final = 1000
_LEAST_ROUNDS = 3
_MOST_GROUPS = 1024
#: Nodes and pairs are slow below these shares of what is usual.
_SLOW, _SLOW_BEST, _SLOW_PAIR = 0.85, 0.95, 0.7
#: Of nodes looked at closely, the share below the others that counts, if it is so many standard errors; and how many
#: of them nodes below ``_SLOW`` are, and how likely it is that chance makes one of the pairs slow each time.
_LESS, _SURE, _LIKELY, _CHANCE = 0.06, 5.0, 3.5, 0.01
#: The error of a median against that of a mean, and a standard deviation against the median of the deviations.
_OF_MEDIAN, _OF_DEVIATION = 1.25, 1.48
#: So many of the nodes are good at least.
_GOOD = 0.2
#: So many pairs, or rounds more, decide about a suspect.
_ENOUGH, _LEAST_AGAIN, _MOST_AGAIN, _FEW = 9, 2, 8, 16


@dataclass(frozen=True)
class Measurement:
    """Bus bandwidth (GB/s, 1e9) that two nodes reached together while the other pairs of the round did the same."""

    round: int
    first: int
    second: int
    busbw_gbps: float


@dataclass(frozen=True)
class Suspects:
    """Nodes, and pairs of otherwise good nodes, clearly below ``typical_gbps``, the rate that a good node has."""

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


@dataclass(frozen=True)
class _Rate:
    """The rate of a node (median of its good partners, however often), its best pair, all with good ones in order."""

    median: float
    best: float
    own: tuple[float, ...]

    def noise(self, around: Sequence[float]) -> float:
        """Standard deviation of its pairs, or of those of other nodes where that is more."""
        return max(_deviation(self.own), _deviation(around))


def suspects(measured: Sequence[Measurement], closely: bool = False) -> Suspects:
    """Who is slow: a node whose pairs with good nodes are, else a pair whose members are both faster with others.

    A pair is as fast as its slower node, so a node that is fast with one partner is good, and each node's rate is the
    median of its pairs with good ones: partners of slow nodes are not blamed, however many there are, as long as a
    fifth of the nodes is good. Two nodes alone cannot be told apart; their pair is compared with nothing.
    ``closely``: nodes of one kind that :func:`again` measured more often; a tenth less counts where rates are steady.
    """
    if len(measured) < 2:
        return Suspects((), (), measured[0].busbw_gbps if measured else 0.0)
    rates, typical = _rates(measured)
    slower = {n: r for n, r in rates.items() if r.median < _SLOW * typical and r.best < _SLOW_BEST * typical}
    slower = _surely(slower, measured, rates, typical) if closely else slower
    together, alone = grouped(((m.first, m.second), m) for m in measured), _alone(slower, measured)
    nodes = {node: rate.median for node, rate in slower.items() if node not in alone}
    slow, of_good = [], _without(measured, set(nodes))
    low = sum(rate < _SLOW_PAIR * typical for rate in of_good)
    for (a, b), turns in together.items():
        rate = max(m.busbw_gbps for m in turns)
        usual = typical if a in alone else min(rates[a].median, rates[b].median)
        if not nodes.keys() & {a, b} and rate < _SLOW_PAIR * usual and len(turns) > closely:
            often = max(0, low - len(turns)) / max(1, len(of_good))
            if not closely or often ** len(turns) * len(together) < _CHANCE:
                slow.append(replace(turns[0], busbw_gbps=rate))
    return Suspects(tuple(sorted(nodes.items())), tuple(slow), typical)


def _alone(slower: Iterable[int], measured: Sequence[Measurement]) -> set[int]:
    """Those that met one other which met nobody else: which of the two is slow cannot be told."""
    both = ((m.first, m.second) for m in measured)
    met = {a: {*others} for a, others in grouped(pair for a, b in both for pair in ((a, b), (b, a))).items()}
    return {a for a in slower if len(met[a]) == 1 and all(met[b] == {a} for b in met[a])}


def _surely(
    slower: Mapping[int, _Rate], measured: Sequence[Measurement], rates: Mapping[int, _Rate], typical: float
) -> dict[int, _Rate]:
    """Of ``slower`` those, and nodes a little slow with nearly everybody, by more than they and the others vary."""
    less = {node for node, rate in rates.items() if rate.median < (1 - _LESS) * typical}
    others = _without(measured, less)
    spread = _deviation([rate.median for node, rate in rates.items() if node not in less])
    found = {}
    for node in less:
        own, noise = rates[node].own, rates[node].noise(others)
        counts = 1 / max(1, len(own)) + 1 / max(1, len(others))
        error = math.hypot(_OF_MEDIAN * noise * math.sqrt(counts), spread / 2)
        often = len(own) >= _ENOUGH and own[3 * (len(own) - 1) // 4] < typical
        errors = _LIKELY if node in slower else _SURE if often else math.inf
        # However much the others vary: where all of a node's pairs are below all of theirs, chance seldom does it.
        apart = bool(own and others) and own[-1] < _SLOW * min(others)
        rare = apart and math.comb(len(own) + len(others), len(own)) * _CHANCE > len(rates)
        if rare or rates[node].median < typical - errors * error:
            found[node] = rates[node]
    return found


def _without(measured: Sequence[Measurement], nodes: set[int]) -> list[float]:
    return [m.busbw_gbps for m in measured if not nodes & {m.first, m.second}]


def _deviation(values: Sequence[float]) -> float:
    """The standard deviation that half of the values, those near the middle, tell of."""
    middle = statistics.median(values or [0.0])
    return _OF_DEVIATION * statistics.median([abs(value - middle) for value in values] or [0.0])


def _rates(measured: Sequence[Measurement]) -> tuple[dict[int, _Rate], float]:
    """Of each node what its pairs reached, and what is usual for a good one."""
    pairs: dict[int, list[tuple[int, float]]] = {}
    for m in measured:
        pairs.setdefault(m.first, []).append((m.second, m.busbw_gbps))
        pairs.setdefault(m.second, []).append((m.first, m.busbw_gbps))
    best = {node: max(rate for _, rate in own) for node, own in pairs.items()}
    good = _good(best)
    found = {}
    for node, all_pairs in pairs.items():
        by_partner: dict[int, list[float]] = {}
        for partner, rate in all_pairs:
            if partner in good:
                by_partner.setdefault(partner, []).append(rate)
        median = statistics.median([statistics.median(own) for own in by_partner.values()] or [best[node]])
        found[node] = _Rate(median, best[node], tuple(sorted(rate for own in by_partner.values() for rate in own)))
    return found, statistics.median(found[node].median for node in good)


def _good(best: Mapping[int, float]) -> set[int]:
    """Nodes whose best pair is about as good as that of the best fifth of the nodes."""
    order = sorted(best.values(), reverse=True)
    limit = _SLOW * order[math.ceil(_GOOD * len(order)) - 1]
    return {node for node, rate in best.items() if rate >= limit}


def again(measured: Sequence[Measurement]) -> list[list[Pair]]:
    """Rounds that measure suspects more often before they are named: nodes with good partners, pairs as they are."""
    found = suspects(measured)
    if len(measured) < 2:
        return []
    rates, typical = _rates(measured)
    bad = {node for node, _ in found.nodes} | {node for node, rate in rates.items() if not rate.own}
    weak = {node for node, rate in rates.items() if rate.median < (1 - _LESS / 2) * typical} - bad
    good = sorted(_good({node: rate.best for node, rate in rates.items()}) - bad - weak)
    if not good or not (bad or weak or found.pairs):
        return []
    turns = max(_LEAST_AGAIN, _ENOUGH - max(len(rate.own) for rate in rates.values()))
    others, rounds = _without(measured, bad | weak), list[list[Pair]]()
    for m in found.pairs:
        for _ in range(_LEAST_AGAIN):
            _pack(rounds, (m.first, m.second))
    for number, node in enumerate(sorted(bad | weak)):
        own, noise = rates[node].own, rates[node].noise(others)
        steady = math.ceil((_SURE * _OF_MEDIAN * noise / (_LESS * typical)) ** 2) - len(own) if node in weak else 0
        for turn in range(max(turns, min(_MOST_AGAIN, steady))):
            _pack(rounds, *((node, good[(number + turn + k) % len(good)]) for k in range(len(good))))
    if len(good) <= _FEW:
        _fill(rounds, good)
    return rounds


def _fill(rounds: Sequence[list[Pair]], good: Sequence[int]) -> None:
    """Pairs the good nodes that are free in a round, so that what is usual is better known, too."""
    for number, one in enumerate(rounds):
        busy = {node for pair in one for node in pair}
        idle = [node for node in (*good[number % len(good) :], *good[: number % len(good)]) if node not in busy]
        one += [(min(pair), max(pair)) for pair in zip(idle[::2], idle[1::2], strict=False)]


def singles_again(measured: Sequence[Measurement]) -> list[list[Pair]]:
    """Rounds of nodes whose single ranks (``measured``) measure again, all of them, where some were slow.

    As often as they did before, twice: ranks that share a NIC take turns at it, so once tells little.
    """
    found, turns = suspects(measured), dict[int, dict[Pair, None]]()
    nodes = {number // RAIL for number, _ in found.nodes}
    slow = {(m.first // RAIL, m.second // RAIL) for m in found.pairs}
    for m in measured:
        pair = m.first // RAIL, m.second // RAIL
        if pair in slow or nodes & set(pair):
            turns.setdefault(m.round, {})[pair] = None
    return [list(pairs) for pairs in turns.values()] * _LEAST_AGAIN


def _pack(rounds: list[list[Pair]], *choices: Pair) -> None:
    """Puts one of some pairs into the first round in which both nodes are free."""
    for one in rounds:
        busy = {node for pair in one for node in pair}
        for a, b in choices:
            if a in busy:
                break
            if b not in busy:
                one.append((min(a, b), max(a, b)))
                return
    rounds.append([(min(choices[0]), max(choices[0]))])
