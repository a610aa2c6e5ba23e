"""The cluster map and the matrix of transports."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any

from nccl_insight.facts.networks import nics
from nccl_insight.model import Analysis, Severity
from nccl_insight.report.figures.base import GREY, ORANGE, RED, Figure, Trace, bare, label, layout
from nccl_insight.report.figures.nodes import KIND, KINDS, WORST, Place, place, rank_pairs, trouble
from nccl_insight.tables.run import Run
from nccl_insight.units import format_ranks, plural

_DETAIL_NODES = 16
_DETAIL_RANKS = 128
_SEVERITY = {Severity.ERROR: (RED, "x"), Severity.WARNING: (ORANGE, "triangle-up")}


def cluster_map(analysis: Analysis, run: Run) -> Figure | None:
    """Nodes with their GPUs and NICs, and the links between nodes by transport."""
    where = place(run)
    if where is None:
        return None
    links = node_links(run, where)
    hosts_in, ranks_in = trouble(analysis)
    nic_names: dict[str, list[str]] = defaultdict(list)
    for row in nics(run).iter_rows(named=True):
        nic_names[row["host"]].append(row["name"])
    detail = len(where.hosts) <= _DETAIL_NODES and where.nranks <= _DETAIL_RANKS
    draw = _detailed if detail else _small
    plot = draw(where, links, nic_names, hosts_in, ranks_in)
    total = Counter(kind for (_, _), kinds in links.items() for kind in kinds.elements())
    said = [f"{plural(len(where.hosts), 'node')} with {plural(where.nranks, 'rank')}"]
    said += [f"{plural(len(nic_names), 'node')} with NICs listed"] if nic_names else []
    if total:
        said.append(
            "between nodes: "
            + ", ".join(f"{plural(n, 'pair')} over {KIND[k].name}" for k, n in total.most_common())
        )
    if hosts_in:
        said.append(
            "findings name "
            + ", ".join(sorted(hosts_in)[:6])
            + (f" and {len(hosts_in) - 6} more" if len(hosts_in) > 6 else "")
        )
    rows = []
    order = sorted(range(len(where.hosts)), key=lambda n: (-_rank_of(hosts_in.get(where.hosts[n])), n))
    between: dict[int, Counter[str]] = defaultdict(Counter)
    for (here, there), kinds in links.items():
        between[here].update(kinds)
        between[there].update(kinds)
    for node in order[:50]:
        host = where.hosts[node]
        names = nic_names.get(host, [])
        rows.append(
            (
                host,
                format_ranks(where.ranks_of[node]),
                ", ".join(names[:8]) or "not listed",
                ", ".join(KIND[k].name for k, _ in between[node].most_common()) or "none seen",
                hosts_in[host].value if host in hosts_in else "none",
            )
        )
    return Figure(
        "cluster",
        "Cluster map",
        "; ".join(said) + ".",
        ("Node", "Ranks", "NICs", "Links to other nodes", "Findings"),
        tuple(rows),
        len(where.hosts),
        caption="Nodes, those with findings first",
        plot=plot,
        size="m" if len(where.hosts) <= 4 else "l",
        wide=True,
    )


def _rank_of(severity: Severity | None) -> int:
    return 0 if severity is None else 3 - severity.order


def node_links(run: Run, where: Place) -> dict[tuple[int, int], Counter[str]]:
    """Rank pairs between different nodes, counted by kind, for each unordered pair of nodes."""
    links: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    for src, dst, kind in rank_pairs(run).select("src_rank", "dst_rank", "kind").iter_rows():
        here, there = where.node_of.get(src), where.node_of.get(dst)
        if here is not None and there is not None and here != there:
            links[min(here, there), max(here, there)][kind] += 1
    return links


def _edges(links: dict[tuple[int, int], Counter[str]], at: list[tuple[float, float]]) -> list[Trace]:
    """A line trace for each kind; a pair with several kinds is drawn as its worst one."""
    lines: dict[str, tuple[list[float | None], list[float | None]]] = {}
    for (here, there), kinds in sorted(links.items()):
        kind = next((k for k in WORST if kinds[k]), "other")
        xs, ys = lines.setdefault(kind, ([], []))
        (x0, y0), (x1, y1) = at[here], at[there]
        xs += [round(x0, 3), round(x1, 3), None]
        ys += [round(y0, 3), round(y1, 3), None]
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": kind.name,
            "x": lines[kind.key][0],
            "y": lines[kind.key][1],
            "line": {"color": kind.color, "dash": kind.dash, "width": 3 if kind.key == "socket" else 1.6},
            "opacity": 0.9 if kind.key == "socket" else 0.55,
            "hoverinfo": "skip",
        }
        for kind in KINDS
        if kind.key in lines
    ]


def _detailed(
    where: Place,
    links: dict[tuple[int, int], Counter[str]],
    nic_names: dict[str, list[str]],
    hosts_in: dict[str, Severity],
    ranks_in: dict[int, Severity],
) -> dict[str, Any]:
    """Boxes of nodes in a grid, GPUs as circles, NICs as squares."""
    wide = max(len(r) for r in where.ranks_of)
    per_row = 4 if wide > 4 else max(2, wide)
    deep = math.ceil(wide / per_row)
    box_w, box_h = per_row + 0.6, deep + 1.6
    columns = _columns(len(where.hosts), box_w + 1.4, box_h + 1.6)
    shapes, notes = [], []
    gpus: dict[str, list[Any]] = defaultdict(list)
    squares: dict[str, list[Any]] = defaultdict(list)
    middles: list[tuple[float, float]] = []
    marks: dict[Severity, dict[str, list[Any]]] = {s: defaultdict(list) for s in _SEVERITY}
    for node, host in enumerate(where.hosts):
        left = (node % columns) * (box_w + 1.4)
        top = -(node // columns) * (box_h + 1.6)
        middles.append((left + box_w / 2, top - box_h + 0.45))
        severity = hosts_in.get(host)
        line = {"width": 3, "color": _SEVERITY[severity][0]} if severity else {"width": 1.5}
        shapes.append(
            {
                "type": "rect",
                "name": "box",
                "layer": "below",
                "x0": left,
                "x1": left + box_w,
                "y0": top,
                "y1": top - box_h,
                "line": line,
            }
        )
        said = label(host, 28) + (f" ({severity.value})" if severity else "")
        notes.append(
            {"x": left, "y": top, "text": said, "showarrow": False, "xanchor": "left", "yanchor": "bottom"}
        )
        for place_in, rank in enumerate(where.ranks_of[node]):
            x, y = left + 0.8 + place_in % per_row, top - 0.75 - place_in // per_row
            gpus["x"].append(x)
            gpus["y"].append(y)
            gpus["text"].append(str(rank))
            gpus["customdata"].append(f"rank {rank}<br>{label(host)}")
            if rank in ranks_in:
                mark = marks[ranks_in[rank]]
                mark["x"].append(x + 0.33)
                mark["y"].append(y + 0.33)
                mark["customdata"].append(f"rank {rank}: {ranks_in[rank].value}")
        names = nic_names.get(host, [])
        for index, name in enumerate(names[:16]):
            squares["x"].append(round(left + 0.5 + (box_w - 1) * (index + 0.5) / min(len(names), 16), 3))
            squares["y"].append(top - box_h + 0.45)
            squares["customdata"].append(f"{label(name)}<br>{label(host)}")
    many = where.nranks > 64
    data: list[Trace] = _edges(links, middles)
    data.append(
        {
            "type": "scatter",
            "mode": "markers+text",
            "name": "GPU (rank)",
            "hovertemplate": "%{customdata}<extra></extra>",
            "marker": {"size": 15 if many else 21, "color": "#3355d1", "line": {"width": 0}},
            "textfont": {"color": "#ffffff", "size": 9 if many else 11},
            **gpus,
        }
    )
    if squares:
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "NIC",
                "hovertemplate": "%{customdata}<extra></extra>",
                "marker": {"size": 8 if many else 10, "symbol": "square", "color": GREY},
                **squares,
            }
        )
    data += _marks(marks)
    return {
        "data": data,
        "layout": layout(
            shapes=shapes,
            annotations=notes,
            xaxis=bare(),
            margin={"l": 8, "r": 8, "t": 34, "b": 8},
            yaxis=bare(scaleanchor="x", scaleratio=1),
        ),
    }


def _columns(count: int, wide: float, high: float) -> int:
    """Columns of the grid of boxes that comes nearest to a drawing twice as wide as high."""

    def misfit(columns: int) -> float:
        return abs(math.log(columns * wide / (math.ceil(count / columns) * high) / 2))

    return min(range(1, min(count, 6) + 1), key=misfit)


def _marks(marks: dict[Severity, dict[str, list[Any]]]) -> list[Trace]:
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": f"named by an {s.value}" if s is Severity.ERROR else f"named by a {s.value}",
            "hovertemplate": "%{customdata}<extra></extra>",
            "marker": {
                "size": 11,
                "symbol": _SEVERITY[s][1],
                "color": _SEVERITY[s][0],
                "line": {"width": 1, "color": "#ffffff"},
            },
            **mark,
        }
        for s, mark in marks.items()
        if mark
    ]


def _small(
    where: Place,
    links: dict[tuple[int, int], Counter[str]],
    nic_names: dict[str, list[str]],
    hosts_in: dict[str, Severity],
    ranks_in: dict[int, Severity],
) -> dict[str, Any]:
    """Nodes as squares in rows, named at the start of each row and under the pointer."""
    count = len(where.hosts)
    columns = math.ceil(math.sqrt(2 * count))
    at = [(float(n % columns), float(-(n // columns))) for n in range(count)]
    every: dict[str, list[Any]] = defaultdict(list)
    marks: dict[Severity, dict[str, list[Any]]] = {s: defaultdict(list) for s in _SEVERITY}
    notes = []
    for node, host in enumerate(where.hosts):
        worst = [hosts_in[host]] if host in hosts_in else []
        worst += [ranks_in[r] for r in where.ranks_of[node] if r in ranks_in]
        severity = min(worst, key=lambda s: s.order) if worst else None
        x, y = at[node]
        listed = plural(len(nic_names.get(host, [])), "NIC")
        text = f"{label(host)}<br>ranks {format_ranks(where.ranks_of[node])}<br>{listed} listed"
        targets = [every, *([marks[severity]] if severity else [])]
        for target in targets:
            target["x"].append(x)
            target["y"].append(y)
            target["customdata"].append(text + (f"<br>named by: {severity.value}" if severity else ""))
        if node % columns == 0:
            notes.append({"x": -0.7, "y": y, "text": label(host, 24), "showarrow": False, "xanchor": "right"})
    size = max(5, min(20, 420 // columns))
    data = _edges(links, at)
    data.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "node",
            "hovertemplate": "%{customdata}<extra></extra>",
            "marker": {"size": size, "symbol": "square", "color": "#3355d1"},
            **every,
        }
    )
    data += _marks(marks)
    rows = math.ceil(count / columns)
    return {
        "data": data,
        "layout": layout(
            annotations=notes,
            margin={"l": 8, "r": 8, "t": 34, "b": 8},
            xaxis=bare(range=[-0.2 * columns, columns]),
            yaxis=bare(range=[-rows, 1]),
        ),
    }
