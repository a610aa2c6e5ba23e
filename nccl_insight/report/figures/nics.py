"""NICs by GPU."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import polars as pl

from nccl_insight.facts.transports import net_links
from nccl_insight.model import Analysis
from nccl_insight.report.figures.base import Figure, layout
from nccl_insight.report.figures.nodes import place
from nccl_insight.tables.run import Run
from nccl_insight.units import plural


def nic_use(analysis: Analysis, run: Run) -> Figure | None:
    """Connections of each local GPU over each NIC, summed over nodes; nodes that differ are named."""
    table = net_links(run).drop_nulls(["local_rank_id", "net_dev"])
    where = place(run)
    if table.is_empty() or where is None:
        return None
    counts = (
        table.group_by("local_host", "local_rank_id", "net_dev")
        .agg(pl.len().alias("n"))
        .sort("local_rank_id", "net_dev")
    )
    grid: Counter[tuple[int, int]] = Counter()
    per_host: dict[str, set[tuple[int, int]]] = defaultdict(set)
    rows: list[tuple[str, ...]] = []
    for host, rank, nic, n in counts.iter_rows():
        node = where.node_of.get(rank)
        if node is None:
            continue
        local = where.ranks_of[node].index(rank)
        grid[local, nic] += n
        per_host[host].add((local, nic))
        rows.append((host or "unknown", str(rank), str(local), str(nic), str(n)))
    if not grid:
        return None
    locals_, nics = sorted({k[0] for k in grid}), sorted({k[1] for k in grid})
    z: list[list[int | None]] = [[grid.get((gpu, nic)) for nic in nics] for gpu in locals_]
    usual = Counter(frozenset(p) for p in per_host.values()).most_common(1)[0]
    odd = sorted(h for h, p in per_host.items() if frozenset(p) != usual[0] and h)
    sharing = {nic: sorted({gpu for gpu, other in grid if other == nic}) for nic in nics}
    busiest = max(nics, key=lambda n: sum(grid[g, n] for g in locals_))
    count, gpus = plural(sum(grid.values()), "connection"), plural(len(locals_), "GPU")
    said = f"{plural(len(nics), 'NIC')} carry {count} of {gpus} a node"
    busy = sum(grid[gpu, busiest] for gpu in locals_)
    said += f"; NIC {busiest} carries {busy:,} of them for {plural(len(sharing[busiest]), 'GPU')}"
    if odd:
        more = f" and {len(odd) - 6} more" if len(odd) > 6 else ""
        said += f"; {usual[1]} of {len(per_host)} nodes use their NICs alike, different are {', '.join(odd[:6])}{more}"
    elif len(per_host) > 1:
        said += f"; all {len(per_host)} nodes use their NICs alike"
    heat: dict[str, Any] = {
        "type": "heatmap",
        "x": [f"NIC {n}" for n in nics],
        "y": [f"GPU {g}" for g in locals_],
        "z": z,
        "xgap": 2,
        "ygap": 2,
        "colorscale": [[0, "#9cc4ea"], [1, "#123f75"]],
        "texttemplate": "%{z}",
        "hoverongaps": False,
        "hovertemplate": "%{y} over %{x}<br>%{z} connections<extra></extra>",
        "showscale": False,
    }
    plot = {
        "data": [heat],
        "layout": layout(
            xaxis={"type": "category", "showgrid": False},
            yaxis={"type": "category", "showgrid": False, "autorange": "reversed"},
        ),
    }
    return Figure(
        "nics",
        "NICs by GPU",
        said + ".",
        ("Node", "Rank", "GPU of the node", "NIC", "Connections"),
        tuple(rows[:50]),
        len(rows),
        (1, 2, 3, 4),
        "Connections by rank and NIC",
        plot,
        "s" if len(locals_) <= 4 else "m",
    )
