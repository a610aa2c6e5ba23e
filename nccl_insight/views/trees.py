"""Trees of the largest communicator, between ranks and between nodes."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from nccl_insight.base.data import dataclass
from nccl_insight.tables.run import Run
from nccl_insight.views.place import Place, in_main, place

Graph = Mapping[int, int | None]
"""Parent by member, None for a root."""


@dataclass(frozen=True)
class Tree:
    """A tree of ranks: its roots, depth, most children of a rank, and hops between nodes."""

    channel: int
    number: int
    roots: tuple[int, ...]
    depth: int
    children: int
    crossings: int


@dataclass(frozen=True)
class Folded:
    """Trees that are alike between nodes: the channels, and the parent, depth and ranks of each node.

    ``hosts`` names the nodes; it is None where ranks stand for themselves because all are on one node.
    """

    channels: tuple[int, ...]
    parents: Graph
    depths: Mapping[int, int]
    ranks: Mapping[int, tuple[int, ...]]
    hosts: tuple[str, ...] | None


@dataclass(frozen=True)
class Trees:
    """All trees by channel, the different ones between nodes; ``nodes``: how many nodes are known."""

    trees: tuple[Tree, ...]
    classes: tuple[Folded, ...]
    nodes: int


def trees(run: Run) -> Trees | None:
    """The trees, None where the log has none."""
    graphs, where = _graphs(run), place(run)
    if not graphs:
        return None
    found = []
    classes: dict[tuple[tuple[int, int | None], ...], list[tuple[int, int]]] = defaultdict(list)
    for key, graph in sorted(graphs.items()):
        roots = sorted(r for r, parent in graph.items() if parent is None)
        fan = Counter(p for p in graph.values() if p is not None)
        crossed = sum(1 for r, p in graph.items() if p is not None and where and where.crosses(r, p))
        deep = max(_depths(graph).values())
        found.append(Tree(*key, tuple(roots), deep, max(fan.values(), default=0), crossed))
        classes[tuple(sorted(_folded(graph, where)[0].items(), key=lambda item: item[0]))].append(key)
    return Trees(
        tuple(found),
        tuple(_class(keys, graphs[keys[0]], where) for keys in classes.values()),
        len(where.hosts) if where else 0,
    )


def _class(keys: list[tuple[int, int]], graph: Graph, where: Place | None) -> Folded:
    parents, members = _folded(graph, where)
    by_node = where is not None and any(len(ranks) > 1 for ranks in members.values())
    return Folded(
        tuple(channel for channel, _ in keys),
        parents,
        _depths(parents),
        {node: tuple(ranks) for node, ranks in members.items()},
        where.hosts if where and by_node else None,
    )


def _graphs(run: Run) -> dict[tuple[int, int], dict[int, int | None]]:
    """Parent of each rank by channel and number of the tree."""
    table = in_main(run, run.table("trees")).drop_nulls(["channel", "rank"])
    graphs: dict[tuple[int, int], dict[int, int | None]] = defaultdict(dict)
    for channel, tree, rank, parent, children in table.select(
        "channel", "tree", "rank", "parent_rank", "child_ranks"
    ).iter_rows():
        graph = graphs[channel, tree or 0]
        if parent is not None or rank not in graph:
            graph[rank] = parent
        for child in children or ():
            if child is not None and graph.get(child) is None:  # a number beyond all ranks is null
                graph[child] = rank
    return graphs


def _depths(graph: Graph) -> dict[int, int]:
    """Distance from the root; a cycle in a damaged log ends the walk."""
    depth: dict[int, int] = {}
    for start in graph:
        path: list[int] = []
        on_path: set[int] = set()
        rank: int | None = start
        while rank is not None and rank not in depth and rank not in on_path:
            path.append(rank)
            on_path.add(rank)
            rank = graph.get(rank)
        base = depth.get(rank, -1) if rank is not None else -1
        for step, item in enumerate(reversed(path), 1):
            depth[item] = base + step
    return depth


def _folded(graph: Graph, where: Place | None) -> tuple[dict[int, int | None], dict[int, list[int]]]:
    """The tree between nodes and the ranks of each, from the top down; ranks stand for themselves on one node."""
    depth = _depths(graph)
    if where is None or len({where.node_of.get(r) for r in graph}) < 2:
        return dict(graph), {r: [r] for r in graph}
    members: dict[int, list[int]] = defaultdict(list)
    folded: dict[int, int | None] = {}
    for rank in sorted(graph, key=lambda r: (depth[r], r)):
        node = where.node_of.get(rank)
        if node is None:
            continue
        members[node].append(rank)
        above = graph[rank]
        there = where.node_of.get(above) if above is not None else None
        if there is not None and there != node:
            folded[node] = there
        folded.setdefault(node, None)
    return folded, members
