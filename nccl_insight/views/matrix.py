"""Transports between ranks: pair by pair, and the patterns inside and between nodes."""

from collections import Counter, defaultdict

from nccl_insight.base.data import dataclass
from nccl_insight.tables.run import Run
from nccl_insight.views.listed import LISTED
from nccl_insight.views.place import KINDS, Pair, Place, place, rank_pairs

_Link = tuple[int, int, str]


@dataclass(frozen=True)
class Pattern:
    """Nodes that are connected alike inside, and how: numbers of GPUs and kind. Empty where no connection is known."""

    nodes: tuple[int, ...]
    links: tuple[_Link, ...]


@dataclass(frozen=True)
class Matrix:
    """Connected pairs of ranks of the largest communicator.

    ``counts``: pairs by kind, the most frequent first. ``worst``: the slowest ones. ``patterns``: the most frequent
    first. ``between``: from node, to node and the slowest kind of their pairs.
    """

    pairs: tuple[Pair, ...]
    place: Place | None
    counts: tuple[tuple[str, int], ...]
    worst: tuple[Pair, ...]
    patterns: tuple[Pattern, ...]
    between: tuple[_Link, ...]


def matrix(run: Run) -> Matrix | None:
    """Who talks to whom over what, None where no connection is known."""
    found, where = rank_pairs(run), place(run)
    if not found:
        return None
    worst = sorted(found, key=lambda p: (KINDS.index(p.kind), p.src, p.dst))[:LISTED]
    counts = tuple(Counter(p.kind for p in found).most_common())
    patterns, between = _by_node(found, where) if where else ((), ())
    return Matrix(found, where, counts, tuple(worst), patterns, between)


def _by_node(found: tuple[Pair, ...], where: Place) -> tuple[tuple[Pattern, ...], tuple[_Link, ...]]:
    index = {r: (n, gpu) for n, members in enumerate(where.ranks_of) for gpu, r in enumerate(members)}
    inside: dict[int, list[_Link]] = {n: [] for n in range(len(where.hosts))}
    between: dict[tuple[int, int], int] = {}
    for pair in found:
        here, there = index.get(pair.src), index.get(pair.dst)
        if here is None or there is None:
            continue
        if here[0] == there[0]:
            inside[here[0]].append((here[1], there[1], pair.kind))
        else:
            key, kind = (here[0], there[0]), KINDS.index(pair.kind)
            between[key] = min(kind, between.get(key, kind))
    alike: dict[tuple[_Link, ...], list[int]] = defaultdict(list)
    for node, links in inside.items():
        alike[tuple(sorted(links))].append(node)
    patterns = [Pattern(tuple(nodes), links) for links, nodes in alike.items()]
    patterns.sort(key=lambda p: (-len(p.nodes), p.nodes[0]))
    return tuple(patterns), tuple((a, b, KINDS[kind]) for (a, b), kind in between.items())


def differing(good: Matrix | None, bad: Matrix | None) -> frozenset[tuple[int, int]]:
    """Pairs of ranks that talk over different transports in two runs, or in one of them only."""
    if good is None or bad is None:
        return frozenset()
    kinds = [{(p.src, p.dst): p.kind for p in side.pairs} for side in (good, bad)]
    return frozenset(pair for pair in kinds[0].keys() | kinds[1].keys() if kinds[0].get(pair) != kinds[1].get(pair))
