"""Rings and trees, a channel at a time."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any

import polars as pl

from nccl_insight.model import Analysis
from nccl_insight.render.figures.base import BLUE, GREY, RED, Figure, Trace, bare, label, layout
from nccl_insight.render.figures.nodes import KIND, KINDS, Place, place, rank_pairs
from nccl_insight.run import Run
from nccl_insight.units import plural
from nccl_insight.views.members import main_comm

_DETAIL = 128
_CHANNELS = 16


def _of_main(run: Run, name: str) -> pl.DataFrame:
    comm = main_comm(run)
    table = run.table(name)
    if comm is None:
        return table
    return table.filter(pl.col("comm_id").eq_missing(pl.lit(comm.comm_id, dtype=pl.String)))


def rings(analysis: Analysis, run: Run) -> Figure | None:
    """Ring order per channel on a circle; nodes instead of ranks for large jobs."""
    table = _of_main(run, "rings").drop_nulls(["channel", "position", "rank"])
    if table.is_empty():
        return None
    where = place(run)
    orders: dict[int, list[int]] = {}
    for (channel,), rows in (
        table.unique(["channel", "position"], keep="first")
        .sort("channel", "position")
        .group_by("channel", maintain_order=True)
    ):
        orders[int(str(channel))] = rows["rank"].to_list()
    kinds = {(s, d): k for s, d, k in rank_pairs(run).select("src_rank", "dst_rank", "kind").iter_rows()}
    cut = bool(table["truncated"].fill_null(False).any())
    rows_out, crossings = [], []
    for channel, order in orders.items():
        hops = list(zip(order, order[1:] + order[:1], strict=True))
        crossed = sum(1 for a, b in hops if where and _crosses(where, a, b))
        used = Counter(KIND[kinds[hop]].name for hop in hops if hop in kinds)
        shown = ", ".join(map(str, order[:24])) + (" ..." if len(order) > 24 else "")
        crossings.append(crossed)
        rows_out.append(
            (
                str(channel),
                str(len(order)),
                str(crossed),
                ", ".join(f"{n} {k}" for k, n in used.most_common()) or "unknown",
                shown,
            )
        )
    said = f"{plural(len(orders), 'ring')} over {plural(max(map(len, orders.values())), 'rank')}"
    if where and len(where.hosts) > 1:
        low, high = min(crossings), max(crossings)
        said += f"; each goes from node to node {low if low == high else f'{low} to {high}'} times ({len(where.hosts)} nodes, so at least {len(where.hosts)})"
    said += "; the log shows only part of the ranks" if cut else ""
    drawn = dict(list(orders.items())[:_CHANNELS])
    plot, masks = _circle(drawn, where, kinds)
    return Figure(
        "rings", "Rings", said + ".", ("Channel", "Ranks", "Hops between nodes", "Transports", "Order"),
        tuple(rows_out[:50]), len(rows_out), (0, 1, 2), "Ring order by channel", plot, "l",
        choices=tuple(f"channel {c}" for c in drawn), choice_label="Ring of", masks=masks,
    )  # fmt: skip


def _crosses(where: Place, a: int, b: int) -> bool:
    here, there = where.node_of.get(a), where.node_of.get(b)
    return here is not None and there is not None and here != there


def _circle(
    orders: dict[int, list[int]], where: Place | None, kinds: dict[tuple[int, int], str]
) -> tuple[dict[str, Any], tuple[int, ...]]:
    everyone = sorted({r for order in orders.values() for r in order})
    by_node = where is not None and len(everyone) > _DETAIL
    if by_node:
        assert where is not None
        items = [label(h, 24) for h in where.hosts]
        spot = where.node_of
        say = items
    else:
        grouped = sorted(everyone, key=lambda r: (where.node_of.get(r, 0) if where else 0, r))
        spot = {rank: n for n, rank in enumerate(grouped)}
        items = [str(r) for r in grouped]
        say = [
            f"rank {r}"
            + (f"<br>{label(where.hosts[where.node_of[r]])}" if where and r in where.node_of else "")
            for r in grouped
        ]
    angle = [2 * math.pi * n / max(1, len(items)) for n in range(len(items))]
    at = [(round(math.sin(a), 4), round(math.cos(a), 4)) for a in angle]
    data: list[Trace] = []
    masks: list[int] = []
    named: set[str] = set()
    for number, order in enumerate(orders.values()):
        lines: dict[str, tuple[list[float | None], list[float | None]]] = {}
        for a, b in zip(order, order[1:] + order[:1], strict=True):
            if a not in spot or b not in spot or spot[a] == spot[b]:
                continue
            xs, ys = lines.setdefault(kinds.get((a, b), "other"), ([], []))
            xs += [at[spot[a]][0], at[spot[b]][0], None]
            ys += [at[spot[a]][1], at[spot[b]][1], None]
        for kind in KINDS:
            if kind.key in lines:
                name = kind.name if kind.key != "other" else "transport not printed"
                data.append({
                    "type": "scatter", "mode": "lines", "name": name, "x": lines[kind.key][0], "y": lines[kind.key][1],
                    "line": {"color": kind.color, "dash": kind.dash, "width": 2}, "hoverinfo": "skip", "visible": number == 0,
                })  # fmt: skip
                masks.append(number)
                named.add(kind.key)
    few = len(items) <= 64
    nodes = [where.node_of.get(r, 0) for r in spot] if where and not by_node else []
    data.append({
        "type": "scatter", "mode": "markers", "x": [p[0] for p in at], "y": [p[1] for p in at], "showlegend": False,
        "name": "node" if by_node else "rank", "customdata": say, "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {"size": 10 if few else 7, "color": [(BLUE, "#6b7fb5")[n % 2] for n in nodes] or BLUE},
    })  # fmt: skip
    masks.append(-1)
    if few and not by_node:
        data.append({
            "type": "scatter", "mode": "text", "x": [round(p[0] * 1.09, 4) for p in at], "y": [round(p[1] * 1.09, 4) for p in at],
            "text": items, "textfont": {"size": 10}, "hoverinfo": "skip", "showlegend": False, "name": "rank",
        })  # fmt: skip
        masks.append(-1)
    notes = []
    if where and not by_node:
        for node, host in enumerate(where.hosts):
            mine = [spot[r] for r in where.ranks_of[node] if r in spot]
            if mine:
                middle = angle[mine[len(mine) // 2]] - (math.pi / len(items) if len(mine) % 2 == 0 else 0)
                x, y = math.sin(middle), math.cos(middle)
                notes.append(
                    {
                        "x": round(x * 1.24, 3),
                        "y": round(y * 1.22, 3),
                        "text": label(host, 24),
                        "showarrow": False,
                        "xanchor": "left" if x > 0.1 else "right" if x < -0.1 else "center",
                    }
                )
    return {
        "data": data,
        "layout": layout(
            annotations=notes, margin={"l": 8, "r": 8, "t": 34, "b": 8}, xaxis=bare(range=[-2, 2]),
            yaxis=bare(scaleanchor="x", scaleratio=1, range=[-1.4, 1.4]),
        ),
    }, tuple(masks)  # fmt: skip


def trees(analysis: Analysis, run: Run) -> Figure | None:
    """Trees per channel, drawn by depth; hops between nodes dashed."""
    table = _of_main(run, "trees").drop_nulls(["channel", "rank"])
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
        crossed = sum(1 for r, p in graph.items() if p is not None and where and _crosses(where, r, p))
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
    said = f"{plural(len(graphs), 'tree')}; the deepest has {plural(deepest, 'level')} below its root, no rank has more than {plural(widest, 'child', 'children')}"
    many = [r for r in rows if "," in r[2]]
    said += f"; {plural(len(many), 'tree')} with several roots, because the log lacks ranks" if many else ""
    plot = {
        "data": data,
        "layout": layout(
            xaxis=bare(), yaxis=bare(autorange="reversed"), margin={"l": 8, "r": 8, "t": 34, "b": 8}
        ),
    }
    return Figure(
        "trees", "Trees", said + ".", ("Channel", "Tree", "Root", "Depth", "Most children", "Hops between nodes"),
        tuple(rows[:50]), len(rows), (0, 1, 3, 4, 5), "Trees by channel", plot, "l", choices=tuple(choices), choice_label="Tree of", masks=tuple(masks),
    )  # fmt: skip


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
        xs, ys = lines[names is not None or bool(where and _crosses(where, item, parent))]
        xs += [spot[parent], spot[item], None]
        ys += [depth[parent], depth[item], None]
    traces: list[Trace] = [
        {
            "type": "scatter", "mode": "lines", "name": "between nodes" if crossing else "within a node", "x": xs, "y": ys,
            "line": {"color": RED if crossing else GREY, "dash": "dash" if crossing else "solid", "width": 1.8},
            "hoverinfo": "skip", "visible": visible,
        }
        for crossing, (xs, ys) in lines.items()
        if xs
    ]  # fmt: skip
    items = sorted(spot)
    few = max(len(m) for m in levels.values()) <= 32
    text = [label(names[i], 24) if names else f"rank {i}" for i in items]
    traces.append({
        "type": "scatter", "mode": "markers+text" if few else "markers", "name": "node" if names else "rank",
        "x": [spot[i] for i in items], "y": [depth[i] for i in items], "customdata": text,
        "text": [str(i) for i in items] if few else None, "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {"size": 20 if few else 8, "color": BLUE}, "textfont": {"color": "#ffffff", "size": 10},
        "showlegend": False, "visible": visible,
    })  # fmt: skip
    return traces
