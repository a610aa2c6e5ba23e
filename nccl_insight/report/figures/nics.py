"""GPU by NIC: how far each NIC is from each GPU, and which connections use it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

import polars as pl

from nccl_insight.facts.gpu_nics import DISTANCES, Topology, topology
from nccl_insight.facts.networks import nics
from nccl_insight.facts.transports import net_links
from nccl_insight.model import Analysis
from nccl_insight.report.figures import svg
from nccl_insight.report.figures.base import MAX_ROWS, Figure
from nccl_insight.report.figures.nodes import place
from nccl_insight.tables.run import Run
from nccl_insight.units import plural

_MOST = 32
_NEAR = ("PIX", "PXB")
_Grid = Mapping[tuple[int, int], int]


def nic_use(analysis: Analysis, run: Run) -> Figure | None:
    """Connections of each local GPU over each NIC, summed over nodes, on the distance; nodes that differ are named."""
    where, known = place(run), topology(run)
    table = net_links(run).drop_nulls(["local_rank_id", "net_dev"])
    grid: Counter[tuple[int, int]] = Counter()
    per_host: dict[str, set[tuple[int, int]]] = defaultdict(set)
    rows: list[tuple[str, ...]] = []
    counts = table.group_by("local_host", "local_rank_id", "net_dev").agg(pl.len().alias("n"))
    for host, rank, nic, n in counts.sort("local_rank_id", "net_dev").iter_rows():
        node = where.node_of.get(rank) if where else None
        if where is None or node is None:
            continue
        local = where.ranks_of[node].index(rank)
        grid[local, nic] += n
        per_host[host].add((local, nic))
        far = known.distance.get((local, nic), "not known") if known else "not known"
        rows.append((host or "unknown", str(rank), str(local), str(nic), far, str(n)))
    if not grid and not (known and known.distance):
        return None
    gpus = sorted({g for g, _ in grid} | ({g.index for g in known.gpus} if known else set()))
    every = sorted({n for _, n in grid} | ({n.index for n in known.nics} if known else set()))
    if not rows and known:
        rows = [
            ("every node", "", str(g), str(n), path, "") for (g, n), path in sorted(known.distance.items())
        ]
    if len(gpus) > _MOST or len(every) > _MOST:
        gpus, every = gpus[:_MOST], every[:_MOST]
    return Figure(
        "nics", "GPU by NIC", _said(grid, known, per_host) + ".",
        ("Node", "Rank", "GPU of the node", "NIC", "Distance", "Connections"), tuple(rows[:MAX_ROWS]), len(rows),
        (1, 2, 3, 5), "Connections by rank and NIC", svg=_draw(gpus, every, grid, known, _names(run, known)),
        wide=len(every) > 9,
    )  # fmt: skip


def _names(run: Run, known: Topology | None) -> dict[int, str]:
    """Names of NICs by number, from the topology or from the first host that lists them."""
    named = {n.index: n.name for n in known.nics} if known else {}
    listed = (
        nics(run).filter(pl.col("index").is_not_null()).unique("index", keep="first", maintain_order=True)
    )
    return named | {int(i): str(name) for i, name in listed.select("index", "name").iter_rows() if name}


def _said(grid: _Grid, known: Topology | None, per_host: Mapping[str, set[tuple[int, int]]]) -> str:
    parts = []
    if grid:
        locals_, used = {g for g, _ in grid}, {n for _, n in grid}
        sharing = {nic: sum(1 for _, n in grid if n == nic) for nic in used}
        parts.append(
            f"{plural(len(used), 'NIC')} carry the connections of {plural(len(locals_), 'GPU')} per node"
        )
        crowded = [n for n in sorted(used) if sharing[n] > 1]
        if crowded:
            parts.append(f"NIC {crowded[0]} serves {sharing[crowded[0]]} GPUs")
        else:
            parts.append("one NIC per GPU" if len(used) == len(locals_) else "several NICs per GPU")
        usual = Counter(frozenset(p) for p in per_host.values()).most_common(1)[0]
        odd = sorted(h for h, p in per_host.items() if frozenset(p) != usual[0] and h)
        if odd:
            more = f" and {len(odd) - 6} more" if len(odd) > 6 else ""
            parts.append(
                f"{usual[1]} of {len(per_host)} nodes use their NICs alike, different are {', '.join(odd[:6])}{more}"
            )
        elif len(per_host) > 1:
            parts.append(f"all {len(per_host)} nodes use their NICs alike")
    if known and known.distance:
        far = [(g, n) for g, n in grid if known.distance.get((g, n), "PIX") not in _NEAR]
        if grid:
            parts.append(
                f"{plural(len(far), 'pair')} of GPU and NIC in use go through the CPU"
                if far
                else "no pair in use goes through the CPU"
            )
        else:
            parts.append("no connection is in the inputs; the color is the distance")
    else:
        parts.append(
            "how far the NICs are from the GPUs is not in the inputs (NCCL_TOPO_DUMP_FILE or "
            "nvidia-smi topo -m tell it)"
        )
    return "; ".join(parts)


def _draw(
    gpus: list[int], every: list[int], grid: _Grid, known: Topology | None, names: Mapping[int, str]
) -> str:
    left, top, row = 74.0, 34.0, 34.0
    cell = max(34.0, min(76.0, 900 / max(1, len(every))))
    parts = [
        svg.text(left + cell * (n + 0.5), top - 12, names.get(nic, f"NIC {nic}"), "t c s", int(cell / 6))
        for n, nic in enumerate(every)
    ]
    shown: dict[str, str] = {}
    for y_at, gpu in enumerate(gpus):
        y = top + row * y_at
        parts.append(svg.text(left - 10, y + 20, f"GPU {gpu}", "t e"))
        for x_at, nic in enumerate(every):
            far = known.distance.get((gpu, nic), "") if known else ""
            used = grid.get((gpu, nic), 0)
            css = f"d-{far.lower()}" if far else ("d-any" if used else "d-none")
            if far:
                shown[far] = css
            said = f"GPU {gpu}, {names.get(nic, f'NIC {nic}')}: {far + ', ' if far else ''}{plural(used, 'connection')}"
            x = left + cell * x_at
            parts.append(
                svg.rect(x + 1, y + 1, cell - 2, row - 2, f"cell {css}" + (" used" if used else ""), said)
            )
            if used:
                parts.append(svg.text(x + cell / 2, y + 21, f"{used:,}", "t c b"))
            elif far and cell >= 40:
                parts.append(svg.text(x + cell / 2, y + 21, far, "t c s"))
    height = top + row * len(gpus) + 26
    entries = [(f"cell {shown[far]}", f"{far}: {what}") for far, what in DISTANCES.items() if far in shown]
    keys, wide = svg.legend(left, height, [*entries, ("cell d-any used", "in use, with its connections")])
    if wide > max(cell * len(every), 480):  # two rows where one is wider than the drawing
        keys, wide = svg.legend(left, height, entries)
        height += 22
        keys += svg.legend(left, height, [("cell d-any used", "in use, with its connections")])[0]
    return svg.drawing(left + max(cell * len(every), wide) + 10, height + 12, "GPU by NIC", [*parts, *keys])
