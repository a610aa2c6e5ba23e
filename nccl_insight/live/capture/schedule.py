"""Which nodes measure with which, so that one bad node, NIC or cable shows after few rounds."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

Pair = tuple[int, int]
_LEAST_ROUNDS = 3
_MOST_GROUPS = 1024
#: Nodes and pairs are slow below these shares of what is usual.
_SLOW, _SLOW_BEST, _SLOW_PAIR = 0.85, 0.95, 0.7
#: So many of the nodes are good at least.
_GOOD = 0.2
#: So many pairs, or rounds more, decide about a suspect.
_ENOUGH, _LEAST_AGAIN = 9, 2


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


def suspects(measured: Sequence[Measurement]) -> Suspects:
    """Who is slow: a node whose pairs with good nodes are, else a pair whose members are both faster with others.

    A pair is as fast as its slower node, so a node that is fast with one partner is good, and each node's rate is the
    median of its pairs with good ones: partners of slow nodes are not blamed, however many there are, as long as a
    fifth of the nodes is good. Two nodes alone cannot be told apart; their pair is compared with nothing.
    """
    if len(measured) < 2:
        return Suspects((), (), measured[0].busbw_gbps if measured else 0.0)
    rates = _rates(measured)
    good = _good(rates)
    typical = statistics.median(rate for node, (rate, *_) in rates.items() if node in good)
    nodes = {
        node: rate for node, (rate, best, _) in rates.items() if rate < _SLOW * typical and best < _SLOW_BEST * typical
    }
    partners: dict[int, set[int]] = {}
    for m in measured:
        partners.setdefault(m.first, set()).add(m.second)
        partners.setdefault(m.second, set()).add(m.first)
    # Two that met nobody else: which of them is slow cannot be told.
    alone = {a for a in nodes if len(partners[a]) == 1 and all(partners[b] == {a} for b in partners[a])}
    nodes = {node: rate for node, rate in nodes.items() if node not in alone}
    together: dict[Pair, list[Measurement]] = {}
    for m in measured:
        together.setdefault((m.first, m.second), []).append(m)
    slow = []
    for (a, b), turns in together.items():
        rate = max(m.busbw_gbps for m in turns)
        usual = typical if a in alone else min(rates[a][0], rates[b][0])
        if not nodes.keys() & {a, b} and rate < _SLOW_PAIR * usual:
            slow.append(replace(turns[0], busbw_gbps=rate))
    return Suspects(tuple(sorted(nodes.items())), tuple(slow), typical)


def _rates(measured: Sequence[Measurement]) -> dict[int, tuple[float, float, int]]:
    """Of each node its rate with good partners, the best of all its pairs, and how many were with good partners."""
    pairs: dict[int, list[tuple[int, float]]] = {}
    for m in measured:
        pairs.setdefault(m.first, []).append((m.second, m.busbw_gbps))
        pairs.setdefault(m.second, []).append((m.first, m.busbw_gbps))
    best = {node: (0.0, max(rate for _, rate in own), 0) for node, own in pairs.items()}
    good = _good(best)
    found = {}
    for node, own in pairs.items():
        rates = [rate for partner, rate in own if partner in good]
        found[node] = statistics.median(rates or [best[node][1]]), best[node][1], len(rates)
    return found


def _good(rates: Mapping[int, tuple[float, float, int]]) -> set[int]:
    """Nodes whose best pair is about as good as that of the best fifth of the nodes."""
    best = sorted((best for _, best, _ in rates.values()), reverse=True)
    limit = _SLOW * best[math.ceil(_GOOD * len(best)) - 1]
    return {node for node, (_, best, _) in rates.items() if best >= limit}


def again(measured: Sequence[Measurement]) -> list[list[Pair]]:
    """Rounds that measure suspects more often before they are named: nodes with good partners, pairs as they are."""
    found = suspects(measured)
    rates = _rates(measured)
    bad = {node for node, _ in found.nodes} | {node for node, (*_, pairs) in rates.items() if not pairs}
    good = sorted(_good(rates) - bad)
    if len(measured) < 2 or not good or not (bad or found.pairs):
        return []
    turns = max(_LEAST_AGAIN, _ENOUGH - max(pairs for *_, pairs in rates.values()))
    rounds: list[list[Pair]] = []
    for m in found.pairs:
        for _ in range(_LEAST_AGAIN):
            _pack(rounds, (m.first, m.second))
    for number, node in enumerate(sorted(bad)):
        for turn in range(turns):
            _pack(rounds, *((node, good[(number + turn + k) % len(good)]) for k in range(len(good))))
    return rounds


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
