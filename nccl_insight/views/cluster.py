"""The nodes of the largest communicator in classes of those that are built and used alike."""

from collections import Counter, defaultdict

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.facts.fabric.networks import nics
from nccl_insight.tables.run import Run
from nccl_insight.views.nics import uses_of
from nccl_insight.views.place import Place, place, rank_pairs


@dataclass(frozen=True)
class Class:
    """What is on nodes of a class and how it is used: NICs that are listed and used, kinds of transports."""

    ranks: int
    nics: int
    used: frozenset[tuple[int, int]]
    inside: frozenset[str]
    between: frozenset[str]


@dataclass(frozen=True)
class Cluster:
    """Two nodes and more. By node: its class (an index into ``classes``, the most frequent first), seconds of its
    slowest initialization and number of its NICs, None where unknown.
    """

    place: Place
    classes: tuple[Class, ...]
    class_of: tuple[int, ...]
    init_s: tuple[float | None, ...]
    nics: tuple[int | None, ...]


def cluster(run: Run) -> Cluster | None:
    """The nodes, None where fewer than two are known."""
    where = place(run)
    if where is None or len(where.hosts) < 2:
        return None
    shapes = _shapes(run, where)
    common = [shape for shape, _ in Counter(shapes).most_common()]
    number = {shape: n for n, shape in enumerate(common)}
    table = run.table("init_timings").drop_nulls(["rank", "total_s"])
    took = dict(table.group_by("rank").agg(pl.col("total_s").max()).iter_rows())
    counted = dict(nics(run).group_by("host").agg(pl.col("name").n_unique()).iter_rows())
    return Cluster(
        place=where,
        classes=tuple(common),
        class_of=tuple(number[s] for s in shapes),
        init_s=tuple(max((took[r] for r in ranks if r in took), default=None) for ranks in where.ranks_of),
        nics=tuple(counted.get(host) for host in where.hosts),
    )


def _shapes(run: Run, where: Place) -> list[Class]:
    device = pl.struct("name", "speed_gbit").n_unique()
    listed = dict(nics(run).group_by("host").agg(device.alias("n")).iter_rows())
    uses: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for use in uses_of(run, where):
        uses[str(use.host)].add((use.gpu, use.nic))
    inside: dict[int, set[str]] = defaultdict(set)
    between: dict[int, set[str]] = defaultdict(set)
    for pair in rank_pairs(run):
        here, there = where.node_of.get(pair.src), where.node_of.get(pair.dst)
        if here is not None:
            (inside if here == there else between)[here].add(pair.kind)
    return [
        Class(
            len(where.ranks_of[node]),
            listed.get(host, 0),
            frozenset(uses[host]),
            frozenset(inside[node]),
            frozenset(between[node]),
        )
        for node, host in enumerate(where.hosts)
    ]
