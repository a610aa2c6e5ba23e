"""Trees, a channel at a time."""

from __future__ import annotations

from collections import Counter, defaultdict

from nccl_insight.model import Analysis
from nccl_insight.report.figures.base import BLUE, GREY, RED, Figure, Trace, bare, label, layout
from nccl_insight.report.figures.nodes import Place, crosses, of_main, place
from nccl_insight.tables.run import Run
from nccl_insight.units import plural

_DETAIL = 128
_CHANNELS = 16


def trees(analysis: Analysis, run: Run) -> Figure | None:
    """Trees per channel, drawn by depth; hops between nodes dashed."""
    table = of_main(run, "trees").drop_nulls(["channel", "rank"])
    if table.is_empty():
        return None
    where = place(run)
    graphs: dict[tuple[int, int], dict[int, int | None]] = defaultdict(dict)
    for row in table.select("channel", "tree", "rank", "parent_rank", "child_ranks").iter_rows():
        channel, tree, rank, parent, children = row
        graph = graphs[channel, tree or 0]
        if parent is not None or rank not in graph:
            graph[rank] = parent
        for child in children or ():
            if graph.get(child) is None:
                graph[child] = rank
    rows, data, masks, choices = [], [], [], []
    deepest = widest = 0
    for number, (key, graph) in enumerate(sorted(graphs.items())):
        depth = _depths(graph)
        roots = sorted(r for r, parent in graph.items() if parent is None)
        fan = Counter(p for p in graph.values() if p is not None)
        crossed = sum(1 for r, p in graph.items() if p is not None and where and crosses(where, r, p))
        deepest, widest = max(deepest, *depth.values()), max(widest, *fan.values(), 0)
        rows.append(
            (
                str(key[0]),
                str(key[1]),
                ", ".join(map(str, roots[:8])),
                str(max(depth.values())),
                str(max(fan.values(), default=0)),
                str(crossed),
            )
        )
        if number < _CHANNELS:
            shown = _fold(graph, where) if where and len(graph) > _DETAIL else graph
            names = where.hosts if where and len(graph) > _DETAIL else None
            traces = _drawn(shown, where if names is None else None, names, number == 0)
            data += traces
            masks += [number] * len(traces)
            choices.append(f"channel {key[0]}, tree {key[1]}")
    said = f"{plural(len(graphs), 'tree')}; the deepest has {plural(deepest, 'level')} below its root"
    said += f", no rank has more than {plural(widest, 'child', 'children')}"
    many = [r for r in rows if "," in r[2]]
    said += f"; {plural(len(many), 'tree')} with several roots, because the log lacks ranks" if many else ""
    plot = {
        "data": data,
        "layout": layout(
            xaxis=bare(), yaxis=bare(autorange="reversed"), margin={"l": 8, "r": 8, "t": 34, "b": 8}
        ),
    }
    return Figure(
        "trees",
        "Trees",
        said + ".",
        ("Channel", "Tree", "Root", "Depth", "Most children", "Hops between nodes"),
        tuple(rows[:50]),
        len(rows),
        (0, 1, 3, 4, 5),
        "Trees by channel",
        plot,
        "l",
        choices=tuple(choices),
        choice_label="Tree of",
        masks=tuple(masks),
    )


def _fold(graph: dict[int, int | None], where: Place) -> dict[int, int | None]:
    """The tree between nodes: each node's parent is the node that its topmost rank hangs on."""
    folded: dict[int, int | None] = {}
    for rank, parent in graph.items():
        here = where.node_of.get(rank)
        there = where.node_of.get(parent) if parent is not None else None
        if here is None:
            continue
        if there is not None and there != here:
            folded[here] = there
        folded.setdefault(here, None)
    return folded


def _depths(graph: dict[int, int | None]) -> dict[int, int]:
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


def _drawn(
    graph: dict[int, int | None], where: Place | None, names: tuple[str, ...] | None, visible: bool
) -> list[Trace]:
    depth = _depths(graph)
    levels: dict[int, list[int]] = defaultdict(list)
    spot: dict[int, float] = {}
    for item in sorted(graph):
        levels[depth[item]].append(item)

    def under(item: int) -> tuple[float, int]:
        parent = graph[item]
        return (spot.get(parent, 0.0) if parent is not None else 0.0, item)

    for level in sorted(levels):
        members = sorted(levels[level], key=under)
        for n, item in enumerate(members):
            spot[item] = round((n + 0.5) / len(members), 4)
    lines: dict[bool, tuple[list[float | None], list[float | None]]] = {False: ([], []), True: ([], [])}
    for item, parent in sorted(graph.items()):
        if parent is None or parent not in spot:
            continue
        xs, ys = lines[names is not None or bool(where and crosses(where, item, parent))]
        xs += [spot[parent], spot[item], None]
        ys += [depth[parent], depth[item], None]
    traces: list[Trace] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "between nodes" if crossing else "within a node",
            "x": xs,
            "y": ys,
            "line": {
                "color": RED if crossing else GREY,
                "dash": "dash" if crossing else "solid",
                "width": 1.8,
            },
            "hoverinfo": "skip",
            "visible": visible,
        }
        for crossing, (xs, ys) in lines.items()
        if xs
    ]
    items = sorted(spot)
    few = max(len(m) for m in levels.values()) <= 32
    text = [label(names[i], 24) if names else f"rank {i}" for i in items]
    traces.append(
        {
            "type": "scatter",
            "mode": "markers+text" if few else "markers",
            "name": "node" if names else "rank",
            "x": [spot[i] for i in items],
            "y": [depth[i] for i in items],
            "customdata": text,
            "text": [str(i) for i in items] if few else None,
            "hovertemplate": "%{customdata}<extra></extra>",
            "marker": {"size": 20 if few else 8, "color": BLUE},
            "textfont": {"color": "#ffffff", "size": 10},
            "showlegend": False,
            "visible": visible,
        }
    )
    return traces
