"""Rings, a channel at a time."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from nccl_insight.model import Analysis
from nccl_insight.report.figures.base import BLUE, Figure, Trace, bare, label, layout
from nccl_insight.report.figures.nodes import KIND, KINDS, Place, crosses, of_main, place, rank_pairs
from nccl_insight.tables.run import Run
from nccl_insight.units import plural

_DETAIL = 128
_CHANNELS = 16


def rings(analysis: Analysis, run: Run) -> Figure | None:
    """Ring order per channel on a circle; nodes instead of ranks for large jobs."""
    table = of_main(run, "rings").drop_nulls(["channel", "position", "rank"])
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
        crossed = sum(1 for a, b in hops if where and crosses(where, a, b))
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
        times = low if low == high else f"{low} to {high}"
        said += f"; each goes from node to node {times} times"
        said += f" ({len(where.hosts)} nodes, so at least {len(where.hosts)})"
    said += "; the log shows only part of the ranks" if cut else ""
    drawn = dict(list(orders.items())[:_CHANNELS])
    plot, masks = _circle(drawn, where, kinds)
    return Figure(
        "rings",
        "Rings",
        said + ".",
        ("Channel", "Ranks", "Hops between nodes", "Transports", "Order"),
        tuple(rows_out[:50]),
        len(rows_out),
        (0, 1, 2),
        "Ring order by channel",
        plot,
        "l",
        choices=tuple(f"channel {c}" for c in drawn),
        choice_label="Ring of",
        masks=masks,
    )


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
                data.append(
                    {
                        "type": "scatter",
                        "mode": "lines",
                        "name": name,
                        "x": lines[kind.key][0],
                        "y": lines[kind.key][1],
                        "line": {"color": kind.color, "dash": kind.dash, "width": 2},
                        "hoverinfo": "skip",
                        "visible": number == 0,
                    }
                )
                masks.append(number)
                named.add(kind.key)
    few = len(items) <= 64
    nodes = [where.node_of.get(r, 0) for r in spot] if where and not by_node else []
    data.append(
        {
            "type": "scatter",
            "mode": "markers",
            "x": [p[0] for p in at],
            "y": [p[1] for p in at],
            "showlegend": False,
            "name": "node" if by_node else "rank",
            "customdata": say,
            "hovertemplate": "%{customdata}<extra></extra>",
            "marker": {"size": 10 if few else 4, "color": [(BLUE, "#6b7fb5")[n % 2] for n in nodes] or BLUE},
        }
    )
    masks.append(-1)
    if few and not by_node:
        data.append(
            {
                "type": "scatter",
                "mode": "text",
                "x": [round(p[0] * 1.09, 4) for p in at],
                "y": [round(p[1] * 1.09, 4) for p in at],
                "text": items,
                "textfont": {"size": 10},
                "hoverinfo": "skip",
                "showlegend": False,
                "name": "rank",
            }
        )
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
            annotations=notes,
            margin={"l": 8, "r": 8, "t": 34, "b": 8},
            xaxis=bare(range=[-2, 2]),
            yaxis=bare(scaleanchor="x", scaleratio=1, range=[-1.4, 1.4]),
        ),
    }, tuple(masks)
