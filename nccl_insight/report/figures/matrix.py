"""The matrix of transports: rank by rank with the borders of nodes; alike nodes folded where there are many."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from nccl_insight.model import Analysis
from nccl_insight.report.figures import svg
from nccl_insight.report.figures.base import Figure
from nccl_insight.report.figures.nodes import KIND, KINDS, WORST, Place, named_ranks, place, rank_pairs
from nccl_insight.tables.run import Run
from nccl_insight.units import plural

_RANKS = 64
_NODES = 64
_CELLS = 720.0
_PATTERNS = 3
_Points = dict[str, list[tuple[int, int]]]


def differing(good: Run, bad: Run) -> frozenset[tuple[int, int]]:
    """Pairs of ranks that talk over different transports in two runs, or in one of them only."""
    kinds = [
        {(s, d): k for s, d, k in rank_pairs(run).select("src_rank", "dst_rank", "kind").iter_rows()}
        for run in (good, bad)
    ]
    if not all(kinds):
        return frozenset()
    return frozenset(
        pair for pair in kinds[0].keys() | kinds[1].keys() if kinds[0].get(pair) != kinds[1].get(pair)
    )


def matrix(analysis: Analysis, run: Run, outlined: frozenset[tuple[int, int]] = frozenset()) -> Figure | None:
    """Rank x rank by transport; for large jobs GPU x GPU inside alike nodes and node x node between them.

    ``outlined``: pairs of ranks to draw a border around.
    """
    frame = rank_pairs(run)
    if frame.is_empty():
        return None
    where = place(run)
    ranks = sorted(set(frame["src_rank"]) | set(frame["dst_rank"]))
    counts = Counter(frame["kind"])
    said = f"{plural(frame.height, 'rank-to-rank connection')}: " + ", ".join(
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
    if len(ranks) <= _RANKS or where is None:
        drawing, title = (
            _by_rank(run, ranks[:_RANKS], where, named_ranks(analysis), outlined),
            "Transport matrix",
        )
        said += f"; the first {_RANKS} of {len(ranks)} ranks are drawn" if len(ranks) > _RANKS else ""
    else:
        drawing, title = _by_node(run, where), "Transport matrix, alike nodes folded"
        said += local_patterns(run, where)
    return Figure(
        "matrix", title, said + ".", ("From rank", "To rank", "Transport", "As printed", "Channels"), rows,
        frame.height, (0, 1, 4), "Connected pairs, slowest transports first", svg=drawing, wide=len(ranks) > 16,
    )  # fmt: skip


def _key(x: float, y: float, kinds: Iterable[str]) -> tuple[list[str], float]:
    present = set(kinds)
    return svg.legend(x, y, [(f"k-{k.key}", f"{k.letter}  {k.name}") for k in KINDS if k.key in present])


def _squares(points: Sequence[tuple[int, int]], css: str, left: float, top: float, cell: float) -> str:
    """All cells of one kind as one path: a tenth of the bytes of an element each."""
    side = max(cell - (1.5 if cell > 6 else 0.4), 0.6)
    return svg.path(
        "".join(
            f"M{left + cell * x:.4g} {top + cell * y:.4g}h{side:.3g}v{side:.3g}h-{side:.3g}z"
            for x, y in points
        ),
        css,
        0,
    )


def _by_rank(
    run: Run,
    ranks: list[int],
    where: Place | None,
    named: frozenset[int],
    outlined: frozenset[tuple[int, int]],
) -> str:
    """Rank by rank, a line between nodes, hosts at the side."""
    node = {r: (where.node_of.get(r, -1) if where else -1) for r in ranks}
    ranks = sorted(ranks, key=lambda r: (node[r], r))
    spot = {r: n for n, r in enumerate(ranks)}
    size = len(ranks)
    cell = min(28.0, _CELLS / size)
    hosts = list(where.hosts) if where else []
    left, top = 64.0 + (120.0 if len(set(node.values())) > 1 else 0.0), 44.0
    side = cell * size
    points: _Points = defaultdict(list)
    for src, dst, kind in rank_pairs(run).select("src_rank", "dst_rank", "kind").iter_rows():
        if src in spot and dst in spot:
            points[kind].append((spot[dst], spot[src]))
    parts = [svg.rect(left, top, side, side, "cell none", radius=0)]
    for rank, n in spot.items():
        parts.append(
            svg.rect(
                left,
                top + cell * n,
                side,
                cell,
                "band hot" if rank in named else "band",
                ranks=(rank,),
                radius=0,
            )
        )
    parts += [_squares(points[k.key], f"k-{k.key}", left, top, cell) for k in KINDS if k.key in points]
    if cell >= 15:
        for k in KINDS:
            parts += [
                svg.text(left + cell * (x + 0.5) - 0.5, top + cell * (y + 0.5) + 4, k.letter, "t c on")
                for x, y in points.get(k.key, ())
            ]
    parts += [
        svg.rect(
            left + cell * spot[d] - 1, top + cell * spot[s] - 1, cell + 0.5, cell + 0.5, "changed", radius=1
        )
        for s, d in sorted(outlined)
        if s in spot and d in spot
    ]
    every = max(1, round(16 / cell))
    for rank, n in spot.items():
        if n % every == 0 or rank in named:
            css = " hot" if rank in named else ""
            parts.append(
                svg.text(left - 6, top + cell * (n + 0.5) + 4, str(rank), "t e s" + css, ranks=(rank,))
            )
            if cell >= 15 or n % max(every, 4) == 0:
                parts.append(
                    svg.text(left + cell * (n + 0.5), top - 6, str(rank), "t c s" + css, ranks=(rank,))
                )
    parts += [svg.text(left, top - 26, "to rank", "t s"), svg.text(left - 6, top - 26, "from", "t e s")]
    start = 0
    for n in range(1, size + 1):
        if n < size and node[ranks[n]] == node[ranks[start]]:
            continue
        if len(set(node.values())) > 1:
            a, b = top + cell * start, top + cell * n
            name = hosts[node[ranks[start]]] if 0 <= node[ranks[start]] < len(hosts) else "host unknown"
            if n < size:
                parts += [
                    svg.line(left, b, left + side, b, "grid", 1.5),
                    svg.line(left + (b - top), top, left + (b - top), top + side, "grid", 1.5),
                ]
            if b - a >= 11:
                parts.append(svg.text(left - 40, (a + b) / 2 + 4, name, "t e s", 22))
        start = n
    keys, wide = _key(left, top + side + 26, points)
    return svg.drawing(left + max(side, wide) + 12, top + side + 38, "Transport matrix", [*parts, *keys])


def _patterns(run: Run, where: Place) -> dict[int, list[tuple[int, int, str]]]:
    """Connections inside each node, by numbers of its GPUs."""
    index = {r: (n, members.index(r)) for n, members in enumerate(where.ranks_of) for r in members}
    patterns: dict[int, list[tuple[int, int, str]]] = {n: [] for n in range(len(where.hosts))}
    for src, dst, kind in rank_pairs(run).select("src_rank", "dst_rank", "kind").iter_rows():
        here, there = index.get(src), index.get(dst)
        if here and there and here[0] == there[0]:
            patterns[here[0]].append((here[1], there[1], kind))
    return patterns


def _by_node(run: Run, where: Place) -> str:
    """Inside: one small matrix per class of alike nodes. Between: node by node, neighbors sharing a cell where many."""
    patterns = _patterns(run, where)
    classes: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for node, found in patterns.items():
        classes[tuple(sorted(found))].append(node)
    ordered = sorted(classes.values(), key=lambda members: (-len(members), members[0]))
    parts: list[str] = []
    kinds: set[str] = set()
    y = 40.0
    for members in ordered[:_PATTERNS]:
        gpus = len(where.ranks_of[members[0]])
        cell = min(20.0, 170 / max(1, gpus))
        count = len(members)
        title = f"inside each of {count} nodes" if count > 1 else f"inside {where.hosts[members[0]]}"
        parts.append(svg.text(20, y - 10, title, "t b", 34))
        parts.append(svg.rect(20, y, cell * gpus, cell * gpus, "cell none", radius=0))
        points: _Points = defaultdict(list)
        for src, dst, kind in patterns[members[0]]:
            points[kind].append((dst, src))
        kinds |= set(points)
        parts += [_squares(points[k.key], f"k-{k.key}", 20, y, cell) for k in KINDS if k.key in points]
        if not points:
            parts.append(svg.text(20 + cell * gpus / 2, y + cell * gpus / 2, "none printed", "t c s"))
        y += cell * gpus + 48
    if len(ordered) > _PATTERNS:
        parts.append(svg.text(20, y - 10, f"and {len(ordered) - _PATTERNS} more patterns", "t s"))
    each = -(-len(where.hosts) // _NODES)
    size = -(-len(where.hosts) // each)
    cells: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    for src, dst, kind in rank_pairs(run).select("src_rank", "dst_rank", "kind").iter_rows():
        here, there = where.node_of.get(src), where.node_of.get(dst)
        if here is not None and there is not None and here != there:
            cells[there // each, here // each][kind] += 1
    between: _Points = defaultdict(list)
    for at, found_kinds in cells.items():
        between[next((k for k in WORST if found_kinds[k]), "other")].append(at)
    kinds |= set(between)
    left, top = 320.0, 40.0
    cell = min(16.0, 560 / max(1, size))
    side = cell * size
    shared = f", {each} neighbors per cell" if each > 1 else ""
    parts.append(
        svg.text(
            left,
            top - 10,
            f"between {len(where.hosts)} nodes{shared}: the slowest transport of each pair",
            "t b",
            90,
        )
    )
    parts.append(svg.rect(left, top, side, side, "cell none", radius=0))
    parts += [_squares(between[k.key], f"k-{k.key}", left, top, cell) for k in KINDS if k.key in between]
    parts += [
        svg.text(left + side + 8, top + 10, where.hosts[0], "t s", 24),
        svg.text(left + side + 8, top + side, where.hosts[-1], "t s", 24),
    ]
    height = max(y, top + side + 20) + 10
    keys, wide = _key(20, height, kinds)
    return svg.drawing(max(left + side + 170, 20 + wide), height + 14, "Transport matrix", [*parts, *keys])


def local_patterns(run: Run, where: Place) -> str:
    """Whether all nodes have the same pattern inside, and which differ."""
    patterns = {n: tuple(sorted(p)) for n, p in _patterns(run, where).items() if p}
    shapes = Counter(patterns.values())
    if not shapes:
        return ""
    usual, votes = shapes.most_common(1)[0]
    if len(shapes) == 1:
        return f"; inside, all {votes} nodes are connected alike"
    odd = [where.hosts[n] for n, p in sorted(patterns.items()) if p != usual]
    more = f" and {len(odd) - 6} more" if len(odd) > 6 else ""
    return f"; inside, {votes} of {len(patterns)} nodes are connected alike, different are {', '.join(odd[:6])}{more}"
