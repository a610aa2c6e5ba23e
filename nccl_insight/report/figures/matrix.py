"""The matrix of transports: rank by rank, node by node for large jobs."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from nccl_insight.model import Analysis
from nccl_insight.report.figures.base import Figure, Trace, axis, label, layout
from nccl_insight.report.figures.nodes import KIND, KINDS, WORST, Place, place, rank_pairs
from nccl_insight.tables.run import Run
from nccl_insight.units import plural

_MATRIX_RANKS = 64
_LETTERS = 32
# A grid has the square of this in cells; beyond it neighboring nodes share one.
_MATRIX_NODES = 256


def matrix(analysis: Analysis, run: Run) -> Figure | None:
    """Rank x rank by transport; node x node, and GPU x GPU within nodes, for large jobs."""
    frame = rank_pairs(run)
    if frame.is_empty():
        return None
    where = place(run)
    ranks = sorted(set(frame["src_rank"]) | set(frame["dst_rank"]))
    counts = Counter(frame["kind"])
    said = f"{plural(frame.height, 'ordered pair')} of ranks with a connection: " + ", ".join(
        f"{n:,} {KIND[k].name}" for k, n in counts.most_common()
    )
    order = {k: n for n, k in enumerate(WORST)}
    listed = sorted(
        frame.iter_rows(named=True), key=lambda r: (order[r["kind"]], r["src_rank"], r["dst_rank"])
    )[:50]
    rows = tuple(
        (str(r["src_rank"]), str(r["dst_rank"]), KIND[r["kind"]].name, r["detail"], str(r["n_channels"]))
        for r in listed
    )
    table: dict[str, Any] = {
        "columns": ("From rank", "To rank", "Transport", "As printed", "Channels"),
        "rows": rows,
        "total": frame.height,
        "numeric": (0, 1, 4),
        "caption": "Connected pairs, slowest transports first",
    }
    if len(ranks) <= _MATRIX_RANKS or where is None:
        points: dict[str, dict[tuple[int, int], int]] = defaultdict(dict)
        index = {rank: n for n, rank in enumerate(ranks)}
        for row in frame.iter_rows(named=True):
            points[row["kind"]][index[row["dst_rank"]], index[row["src_rank"]]] = row["n_channels"]
        names = [str(r) for r in ranks]
        plot = _grid(
            points,
            names,
            "to rank",
            "from rank",
            "rank %{y} to rank %{x}<br>%{fullData.name}<br>%{z} channels",
        )
        return Figure("matrix", "Transport matrix", said + ".", plot=plot, size="l", **table)
    each = _nodes_each(where)
    return Figure(
        "matrix",
        "Transport matrix, by node" if each == 1 else f"Transport matrix, by {each} nodes",
        said + _local(run, where) + ".",
        plot=_by_node(run, where),
        size="l",
        wide=True,
        **table,
    )


def _nodes_each(where: Place) -> int:
    """How many neighboring nodes share a row and a column."""
    return -(-len(where.hosts) // _MATRIX_NODES)


def _by_node(run: Run, where: Place) -> dict[str, Any]:
    """Node x node, or groups of nodes: a cell shows the worst kind of its rank pairs and how many there are."""
    each = _nodes_each(where)
    cells: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    for src, dst, kind in rank_pairs(run).select("src_rank", "dst_rank", "kind").iter_rows():
        here, there = where.node_of.get(src), where.node_of.get(dst)
        if here is not None and there is not None:
            cells[there // each, here // each][kind] += 1
    points: dict[str, dict[tuple[int, int], int]] = defaultdict(dict)
    for cell, kinds in cells.items():
        worst = next((k for k in WORST if kinds[k]), "other")
        points[worst][cell] = sum(kinds.values())
    names = [label(h, 24) for h in where.hosts]
    if each > 1:
        firsts = range(0, len(names), each)
        names = [f"{names[n]} .. {names[min(n + each, len(names)) - 1]}" for n in firsts]
    return _grid(
        points, names, "to node", "from node", "%{y} to %{x}<br>worst: %{fullData.name}<br>%{z} rank pairs"
    )


def _local(run: Run, where: Place) -> str:
    """Whether all nodes have the same pattern inside, and which differ."""
    patterns: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for src, dst, kind in rank_pairs(run).select("src_rank", "dst_rank", "kind").iter_rows():
        here, there = where.node_of.get(src), where.node_of.get(dst)
        if here is not None and here == there:
            members = where.ranks_of[here]
            patterns[here].append((members.index(src), members.index(dst), kind))
    shapes = Counter(tuple(sorted(p)) for p in patterns.values())
    if not shapes:
        return ""
    usual, votes = shapes.most_common(1)[0]
    if len(shapes) == 1:
        return f"; inside, all {votes} nodes are connected alike"
    odd = [where.hosts[n] for n, p in sorted(patterns.items()) if tuple(sorted(p)) != usual]
    more = f" and {len(odd) - 6} more" if len(odd) > 6 else ""
    return f"; inside, {votes} of {len(patterns)} nodes are connected alike, different are {', '.join(odd[:6])}{more}"


def _grid(
    points: dict[str, dict[tuple[int, int], int]], names: list[str], x_title: str, y_title: str, hover: str
) -> dict[str, Any]:
    """One heatmap for each kind, so that the legend switches kinds; letters where there is room."""
    size = len(names)
    gap = 1 if size <= 64 else 0
    data: list[Trace] = []
    for kind in KINDS:
        if kind.key not in points:
            continue
        grid: list[list[int | None]] = [[None] * size for _ in range(size)]
        for (x, y), value in points[kind.key].items():
            grid[y][x] = value
        trace: Trace = {
            "type": "heatmap",
            "name": kind.name,
            "showlegend": True,
            "showscale": False,
            "x": names,
            "y": names,
            "z": grid,
            "colorscale": [[0, kind.color], [1, kind.color]],
            "xgap": gap,
            "ygap": gap,
            "hoverongaps": False,
            "hovertemplate": hover + "<extra></extra>",
        }
        if size <= _LETTERS:
            trace |= {"texttemplate": kind.letter, "textfont": {"color": "#ffffff", "size": 11}}
        data.append(trace)
    return {
        "data": data,
        "layout": layout(
            xaxis=axis(x_title, type="category", showgrid=False, constrain="domain", side="bottom"),
            yaxis=axis(
                y_title,
                type="category",
                showgrid=False,
                autorange="reversed",
                scaleanchor="x",
                constrain="domain",
            ),
        ),
    }
