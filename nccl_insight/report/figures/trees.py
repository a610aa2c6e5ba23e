"""Trees between nodes: the chain of ranks inside a node is one box."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from nccl_insight.model import Analysis
from nccl_insight.report.figures import svg
from nccl_insight.report.figures.base import MAX_ROWS, Figure
from nccl_insight.report.figures.nodes import Place, crosses, named_ranks, of_main, place
from nccl_insight.tables.run import Run
from nccl_insight.units import format_ranks, plural

_SHOWN = 2
_LEVEL = 7
_DEEP = 8
_BOX, _TALL, _GAP, _DOWN = 104.0, 44.0, 12.0, 34.0
_Graph = Mapping[int, "int | None"]


def trees(analysis: Analysis, run: Run) -> Figure | None:
    """The different trees side by side (usually the two of the double binary tree), roots marked."""
    graphs = _graphs(run)
    if not graphs:
        return None
    where = place(run)
    rows: list[tuple[str, ...]] = []
    classes: dict[tuple[tuple[int, int | None], ...], list[tuple[int, int]]] = defaultdict(list)
    deepest = widest = 0
    for key, graph in sorted(graphs.items()):
        depth = depths(graph)
        roots = sorted(r for r, parent in graph.items() if parent is None)
        fan = Counter(p for p in graph.values() if p is not None)
        crossed = sum(1 for r, p in graph.items() if p is not None and where and crosses(where, r, p))
        deepest, widest = max(deepest, *depth.values()), max(widest, *fan.values(), 0)
        rows.append((str(key[0]), str(key[1]), ", ".join(map(str, roots[:8])), str(max(depth.values())),
                     str(max(fan.values(), default=0)), str(crossed)))  # fmt: skip
        classes[tuple(sorted(_folded(graph, where)[0].items(), key=lambda item: item[0]))].append(key)
    between = " between the nodes" if where and len(where.hosts) > 1 else ""
    said = f"{plural(len(graphs), 'tree')}"
    said += f", {plural(len(classes), 'different one')}{between}" if len(classes) < len(graphs) else ""
    said += f"; depth {deepest}, at most {plural(widest, 'child', 'children')} per rank"
    torn = sum(1 for row in rows if "," in row[2])
    said += f"; {plural(torn, 'tree')} with several roots, because the log lacks ranks" if torn else ""
    return Figure(
        "trees", "Trees", said + ".", ("Channel", "Tree", "Root", "Depth", "Most children", "Hops between nodes"),
        tuple(rows[:MAX_ROWS]), len(rows), (0, 1, 3, 4, 5), "Trees by channel",
        svg=_draw(list(classes.values()), graphs, where, named_ranks(analysis)), wide=True,
    )  # fmt: skip


def _graphs(run: Run) -> dict[tuple[int, int], dict[int, int | None]]:
    """Parent of each rank by channel and number of the tree."""
    table = of_main(run, "trees").drop_nulls(["channel", "rank"])
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


def depths(graph: _Graph) -> dict[int, int]:
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


def _folded(graph: _Graph, where: Place | None) -> tuple[dict[int, int | None], dict[int, list[int]]]:
    """The tree between nodes and the ranks of each, from the top down; ranks stand for themselves on one node."""
    depth = depths(graph)
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


def _draw(
    classes: list[list[tuple[int, int]]],
    graphs: Mapping[tuple[int, int], _Graph],
    where: Place | None,
    named: frozenset[int],
) -> str:
    parts: list[str] = []
    x, tallest = 10.0, 0.0
    for keys in classes[:_SHOWN]:
        folded, members = _folded(graphs[keys[0]], where)
        by_node = any(len(m) > 1 for m in members.values())
        drawn, wide, tall = _tree(folded, members, where if by_node else None, named, x)
        channels = format_ranks([c for c, _ in keys], 4)
        parts.append(
            svg.text(
                x, 18, f"{'channel' if len(keys) == 1 else 'channels'} {channels} (root on top)", "t b", 60
            )
        )
        parts += drawn
        x, tallest = x + max(wide, 260) + 40, max(tallest, tall)
    if len(classes) > _SHOWN:
        tallest += 22
        parts.append(
            svg.text(10, tallest, f"and {len(classes) - _SHOWN} more different trees in the table", "t s")
        )
    return svg.drawing(x - 20, tallest + 12, "Trees", parts)


def _tree(
    graph: _Graph, members: Mapping[int, list[int]], where: Place | None, named: frozenset[int], left: float
) -> tuple[list[str], float, float]:
    """Boxes by level, at most some per level; width and height that they take."""
    depth = depths(graph)
    levels: dict[int, list[int]] = defaultdict(list)
    spot: dict[int, float] = {}
    order: dict[int, int] = {}
    for item in sorted(graph):
        levels[depth[item]].append(item)
    widest = min(_LEVEL, max(map(len, levels.values())))
    room = widest * (_BOX + _GAP)
    parts: list[str] = []
    edges: list[str] = []
    for level in sorted(levels)[:_DEEP]:
        above_of = {i: graph[i] for i in levels[level]}
        items = sorted(above_of, key=lambda i: (order.get(a, 0) if (a := above_of[i]) is not None else 0, i))
        order |= {item: n for n, item in enumerate(items)}
        shown = items if len(items) <= _LEVEL else items[: _LEVEL - 1]
        slots = len(shown) + (1 if len(items) > len(shown) else 0)
        y = 34 + (_TALL + _DOWN) * level
        for n, item in enumerate(shown):
            cx = left + room * (n + 0.5) / slots
            spot[item] = cx
            ranks = members.get(item, [item])
            hot = any(r in named for r in ranks)
            css = "box hot" if hot else ("box gpu" if graph[item] is None else "box plain")
            title = where.hosts[item] if where else f"rank {item}"
            parts.append(
                svg.rect(
                    cx - _BOX / 2, y, _BOX, _TALL, css, f"{title}: ranks {format_ranks(ranks)}", ranks=ranks
                )
            )
            parts.append(svg.text(cx, y + (19 if where else 27), title, "t c b", 15))
            if where:
                parts.append(svg.text(cx, y + 36, _chain(ranks), "t c s", 18))
            above = graph[item]
            if above is not None and above in spot:
                edges.append(svg.line(spot[above], y - _DOWN, cx, y, "wire net" if where else "wire", 2))
        if len(items) > len(shown):
            cx = left + room * (slots - 0.5) / slots
            parts.append(svg.rect(cx - _BOX / 2, y, _BOX, _TALL, "box idle"))
            parts.append(svg.text(cx, y + 27, f"{len(items) - len(shown):,} more", "t c s"))
    left_out = sum(len(items) for level, items in levels.items() if level >= _DEEP)
    height = 34 + (_TALL + _DOWN) * min(len(levels), _DEEP)
    if left_out:
        what = "nodes" if where else "ranks"
        parts.append(
            svg.text(
                left,
                height + 4,
                f"{left_out:,} {what} on {len(levels) - _DEEP} more levels",
                "t c s",
            )
        )
        height += 26
    return [*edges, *parts], room, height


def _chain(ranks: list[int]) -> str:
    shown = ranks if len(ranks) <= 3 else [ranks[0], "...", ranks[-1]]
    return " > ".join(map(str, shown))
