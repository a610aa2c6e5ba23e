"""The matrix of transports: rank by rank with the borders of nodes; alike nodes folded where there are many."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from nccl_insight.base.model import Analysis
from nccl_insight.base.units import listed, plural
from nccl_insight.report.figures import svg
from nccl_insight.report.figures.base import Figure, listing
from nccl_insight.report.figures.nodes import KIND, KINDS, named_ranks
from nccl_insight.views.matrix import Matrix
from nccl_insight.views.place import KINDS as WORST
from nccl_insight.views.place import Place

_RANKS = 64
_NODES = 64
_CELLS = 720.0
_PATTERNS = 3
_Points = dict[str, list[tuple[int, int]]]


def matrix(analysis: Analysis, view: Matrix, outlined: frozenset[tuple[int, int]] = frozenset()) -> Figure:
    """Rank x rank by transport; for large jobs GPU x GPU inside alike nodes and node x node between them.

    ``outlined``: pairs of ranks to draw a border around.
    """
    where = view.place
    ranks = sorted({p.src for p in view.pairs} | {p.dst for p in view.pairs})
    said = f"{plural(len(view.pairs), 'rank-to-rank connection')}: " + ", ".join(
        f"{n:,} {KIND[k].name}" for k, n in view.counts
    )
    rows = tuple((str(p.src), str(p.dst), KIND[p.kind].name, p.detail, str(p.n_channels)) for p in view.worst)
    if len(ranks) <= _RANKS or where is None:
        drawing, title = (_by_rank(view, ranks[:_RANKS], named_ranks(analysis), outlined), "Transport matrix")
        said += f"; the first {_RANKS} of {len(ranks)} ranks are drawn" if len(ranks) > _RANKS else ""
    else:
        drawing, title = _by_node(view, where), "Transport matrix, alike nodes folded"
        said += _alike(view, where)
    return Figure(
        "matrix",
        title,
        said + ".",
        listing(
            "From rank#|To rank#|Transport|As printed|Channels#",
            rows,
            "Connected pairs, slowest transports first",
            len(view.pairs),
        ),
        wide=len(ranks) > 16,
        svg=drawing,
    )


def _key(x: float, y: float, kinds: Iterable[str]) -> tuple[list[str], float]:
    present = set(kinds)
    return svg.legend(x, y, [(f"k-{k.key}", f"{k.letter}  {k.name}") for k in KINDS if k.key in present])


def _grid(points: _Points, left: float, top: float, side: float, cell: float) -> list[str]:
    """Cells by kind, all of one kind as one path: a tenth of the bytes of an element each."""
    wide = max(cell - (1.5 if cell > 6 else 0.4), 0.6)
    parts = [svg.rect(left, top, side, side, "cell none", radius=0)]
    for kind in KINDS:
        if places := points.get(kind.key):
            square = f"h{wide:.3g}v{wide:.3g}h-{wide:.3g}z"
            path = "".join(f"M{left + cell * x:.4g} {top + cell * y:.4g}{square}" for x, y in places)
            parts.append(svg.path(path, f"k-{kind.key}", 0))
    return parts


def _by_rank(view: Matrix, ranks: list[int], named: frozenset[int], outlined: frozenset[tuple[int, int]]) -> str:
    """Rank by rank, a line between nodes, hosts at the side."""
    where = view.place
    node = {r: (where.node_of.get(r, -1) if where else -1) for r in ranks}
    ranks = sorted(ranks, key=lambda r: (node[r], r))
    spot = {r: n for n, r in enumerate(ranks)}
    size = len(ranks)
    cell = min(28.0, _CELLS / size)
    left, top = 64.0 + (120.0 if len(set(node.values())) > 1 else 0.0), 44.0
    side = cell * size
    points: _Points = defaultdict(list)
    for pair in view.pairs:
        if pair.src in spot and pair.dst in spot:
            points[pair.kind].append((spot[pair.dst], spot[pair.src]))
    ground, *squares = _grid(points, left, top, side, cell)
    parts = [ground]
    for rank, n in spot.items():
        css = "band hot" if rank in named else "band"
        parts.append(svg.rect(left, top + cell * n, side, cell, css, ranks=(rank,), radius=0))
    parts += squares
    if cell >= 15:
        for k in KINDS:
            parts += [
                svg.text(left + cell * (x + 0.5) - 0.5, top + cell * (y + 0.5) + 4, k.letter, "t c on")
                for x, y in points.get(k.key, ())
            ]
    parts += [
        svg.rect(left + cell * spot[d] - 1, top + cell * spot[s] - 1, cell + 0.5, cell + 0.5, "changed", radius=1)
        for s, d in sorted(outlined)
        if s in spot and d in spot
    ]
    parts += _numbers(spot, named, left, top, cell)
    parts += _borders([node[r] for r in ranks], list(where.hosts) if where else [], left, top, cell)
    keys, wide = _key(left, top + side + 26, points)
    return svg.drawing(left + max(side, wide) + 12, top + side + 38, "Transport matrix", [*parts, *keys])


def _borders(nodes: Sequence[int], hosts: Sequence[str], left: float, top: float, cell: float) -> Iterator[str]:
    """Lines between the ranks of different nodes, and the hosts at the side where there is room."""
    side = cell * len(nodes)
    runs = [(place, len(list(alike))) for place, alike in groupby(nodes)]
    end = 0
    for place, count in runs if len(runs) > 1 else ():
        start, end = end, end + count
        a, b = top + cell * start, top + cell * end
        if end < len(nodes):
            yield svg.line(left, b, left + side, b, "grid", 1.5)
            yield svg.line(left + (b - top), top, left + (b - top), top + side, "grid", 1.5)
        if b - a >= 11:
            name = hosts[place] if 0 <= place < len(hosts) else "host unknown"
            yield svg.text(left - 40, (a + b) / 2 + 4, name, "t e s", 22)


def _numbers(spot: dict[int, int], named: frozenset[int], left: float, top: float, cell: float) -> Iterator[str]:
    """Ranks at the side and, where there is room, above; those named always."""
    every = max(1, round(16 / cell))
    for rank, n in spot.items():
        if n % every == 0 or rank in named:
            css = " hot" if rank in named else ""
            yield svg.text(left - 6, top + cell * (n + 0.5) + 4, str(rank), "t e s" + css, ranks=(rank,))
            if cell >= 15 or n % max(every, 4) == 0:
                yield svg.text(left + cell * (n + 0.5), top - 6, str(rank), "t c s" + css, ranks=(rank,))
    yield from (svg.text(left, top - 26, "to rank", "t s"), svg.text(left - 6, top - 26, "from", "t e s"))


def _by_node(view: Matrix, where: Place) -> str:
    """Inside: one small matrix per class of alike nodes. Between: node by node, neighbors sharing a cell where many."""
    parts: list[str] = []
    kinds: set[str] = set()
    y = 40.0
    for pattern in view.patterns[:_PATTERNS]:
        members = pattern.nodes
        gpus = len(where.ranks_of[members[0]])
        cell = min(20.0, 170 / max(1, gpus))
        count = len(members)
        title = f"inside each of {count} nodes" if count > 1 else f"inside {where.hosts[members[0]]}"
        parts.append(svg.text(20, y - 10, title, "t b", 34))
        points: _Points = defaultdict(list)
        for src, dst, kind in pattern.links:
            points[kind].append((dst, src))
        kinds |= set(points)
        parts += _grid(points, 20, y, cell * gpus, cell)
        if not points:
            parts.append(svg.text(20 + cell * gpus / 2, y + cell * gpus / 2, "none printed", "t c s"))
        y += cell * gpus + 48
    if len(view.patterns) > _PATTERNS:
        parts.append(svg.text(20, y - 10, f"and {len(view.patterns) - _PATTERNS} more patterns", "t s"))
    each = -(-len(where.hosts) // _NODES)
    size = -(-len(where.hosts) // each)
    cells: dict[tuple[int, int], str] = {}
    for here, there, kind in view.between:
        at = there // each, here // each
        cells[at] = min(kind, cells.get(at, kind), key=WORST.index)
    between: _Points = defaultdict(list)
    for at, kind in cells.items():
        between[kind].append(at)
    kinds |= set(between)
    left, top = 320.0, 40.0
    cell = min(16.0, 560 / max(1, size))
    side = cell * size
    shared = f", {each} neighbors per cell" if each > 1 else ""
    said = f"between {len(where.hosts)} nodes{shared}: the slowest transport of each pair"
    parts += [svg.text(left, top - 10, said, "t b", 90), *_grid(between, left, top, side, cell)]
    parts += [
        svg.text(left + side + 8, top + 10, where.hosts[0], "t s", 24),
        svg.text(left + side + 8, top + side, where.hosts[-1], "t s", 24),
    ]
    height = max(y, top + side + 20) + 10
    keys, wide = _key(20, height, kinds)
    return svg.drawing(max(left + side + 170, 20 + wide), height + 14, "Transport matrix", [*parts, *keys])


def _alike(view: Matrix, where: Place) -> str:
    """Whether all nodes have the same pattern inside, and which differ."""
    patterns = [p for p in view.patterns if p.links]
    if not patterns:
        return ""
    votes = len(patterns[0].nodes)
    if len(patterns) == 1:
        return f"; inside, all {votes} nodes are connected alike"
    odd = [where.hosts[n] for n in sorted(n for p in patterns[1:] for n in p.nodes)]
    known = votes + len(odd)
    return f"; inside, {votes} of {known} nodes are connected alike, different are {listed(odd, 6)}"
