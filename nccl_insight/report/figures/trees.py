"""Trees between nodes: the chain of ranks inside a node is one box."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from nccl_insight.base.model import Analysis
from nccl_insight.base.units import format_ranks, plural
from nccl_insight.report.figures import svg
from nccl_insight.report.figures.base import Figure, listing
from nccl_insight.report.figures.nodes import named_ranks
from nccl_insight.views.trees import Folded, Trees

_SHOWN = 2
_LEVEL = 7
_DEEP = 8
_BOX, _TALL, _GAP, _DOWN = 104.0, 44.0, 12.0, 34.0


def trees(analysis: Analysis, view: Trees) -> Figure:
    """The different trees side by side (usually the two of the double binary tree), roots marked."""
    rows = tuple(
        (str(t.channel), str(t.number), ", ".join(map(str, t.roots[:8])), *map(str, (t.depth, t.children, t.crossings)))
        for t in view.trees
    )
    between = " between the nodes" if view.nodes > 1 else ""
    said = f"{plural(len(rows), 'tree')}"
    said += (
        f", {'all alike' if len(view.classes) == 1 else plural(len(view.classes), 'different one')}{between}"
        if len(view.classes) < len(rows)
        else ""
    )
    widest = max(t.children for t in view.trees)
    said += f"; depth {max(t.depth for t in view.trees)}"
    said += f", at most {plural(widest, 'child', 'children')} per rank"
    torn = sum(1 for t in view.trees if len(t.roots) > 1)
    said += f"; {plural(torn, 'tree')} with several roots, because the log lacks ranks" if torn else ""
    return Figure(
        "trees",
        "Trees",
        said + ".",
        listing("Channel#|Tree#|Root|Depth#|Most children#|Hops between nodes#", rows, "Trees by channel"),
        wide=True,
        svg=_draw(view.classes, named_ranks(analysis)),
    )


def _draw(classes: Sequence[Folded], named: frozenset[int]) -> str:
    parts: list[str] = []
    x, tallest = 10.0, 0.0
    for item in classes[:_SHOWN]:
        drawn, wide, tall = _tree(item, named, x)
        channels = format_ranks(item.channels, 4)
        word = "channel" if len(item.channels) == 1 else "channels"
        parts.append(svg.text(x, 18, f"{word} {channels} (root on top)", "t b", 60))
        parts += drawn
        x, tallest = x + max(wide, 260) + 40, max(tallest, tall)
    if len(classes) > _SHOWN:
        tallest += 22
        parts.append(svg.text(10, tallest, f"and {len(classes) - _SHOWN} more different trees in the table", "t s"))
    return svg.drawing(x - 20, tallest + 12, "Trees", parts)


def _tree(view: Folded, named: frozenset[int], left: float) -> tuple[list[str], float, float]:
    """Boxes by level, at most some per level; width and height that they take."""
    graph, hosts = view.parents, view.hosts
    levels: dict[int, list[int]] = defaultdict(list)
    spot: dict[int, float] = {}
    order: dict[int, int] = {}
    for item in sorted(graph):
        levels[view.depths[item]].append(item)
    widest = min(_LEVEL, max(map(len, levels.values())))
    below = [len(items) for level, items in levels.items() if level >= _DEEP]
    what = "node" if hosts else "rank"
    note = f"{plural(sum(below), what)} on {plural(len(below), 'more level')}" if below else ""
    room = max(widest * (_BOX + _GAP), svg.room([note]) if note else 0)
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
            parts += _node(view, item, named, cx, y)
            above = graph[item]
            if above is not None and above in spot:
                edges.append(svg.line(spot[above], y - _DOWN, cx, y, "wire net" if hosts else "wire", 2))
        if len(items) > len(shown):
            cx = left + room * (slots - 0.5) / slots
            parts.append(svg.rect(cx - _BOX / 2, y, _BOX, _TALL, "box idle"))
            parts.append(svg.text(cx, y + 27, f"{len(items) - len(shown):,} more", "t c s"))
    height = 34 + (_TALL + _DOWN) * min(len(levels), _DEEP)
    if note:
        parts.append(svg.text(left + room / 2, height + 4, note, "t c s"))
        height += 26
    return [*edges, *parts], room, height


def _node(view: Folded, item: int, named: frozenset[int], cx: float, y: float) -> Iterator[str]:
    """The box of a rank, or of a node with the chain of its ranks."""
    ranks, hosts = view.ranks.get(item, (item,)), view.hosts
    plain = "box gpu" if view.parents[item] is None else "box plain"
    css = plain if named.isdisjoint(ranks) else "box hot"
    title = hosts[item] if hosts else f"rank {item}"
    yield svg.rect(cx - _BOX / 2, y, _BOX, _TALL, css, f"{title}: ranks {format_ranks(ranks)}", ranks=ranks)
    yield svg.text(cx, y + (19 if hosts else 27), title, "t c b", 15)
    if hosts:
        shown = ranks if len(ranks) <= 3 else [ranks[0], "...", ranks[-1]]
        yield svg.text(cx, y + 36, " > ".join(map(str, shown)), "t c s", 18)
