"""GPU by NIC: how far each NIC is from each GPU, and which connections use it."""

from collections.abc import Mapping
from typing import Final

from nccl_insight.base import toml
from nccl_insight.base.model import Analysis
from nccl_insight.base.units import listed, plural
from nccl_insight.report.figures import svg
from nccl_insight.report.figures.base import Figure, listing
from nccl_insight.views.nics import GpuNics

_MOST = 32
_NEAR = ("PIX", "PXB")
_DISTANCES: Final[Mapping[str, str]] = toml.beside(__file__)["distances"]


def nic_use(analysis: Analysis, view: GpuNics) -> Figure:
    """Connections of each local GPU over each NIC, summed over nodes, on the distance; nodes that differ are named."""
    rows = [
        (
            u.host or "unknown",
            *map(str, (u.rank, u.gpu, u.nic, view.distance.get((u.gpu, u.nic), "not known"), u.connections)),
        )
        for u in view.uses
    ] or [("every node", "", str(gpu), str(nic), path, "") for (gpu, nic), path in sorted(view.distance.items())]
    return Figure(
        "nics",
        "GPU by NIC",
        _said(view) + ".",
        listing("Node|Rank#|GPU of the node#|NIC#|Distance|Connections#", rows, "Connections by rank and NIC"),
        wide=len(view.nics) > 9,
        svg=_draw(view),
    )


def _said(view: GpuNics) -> str:
    grid = view.connections
    parts = []
    if grid:
        locals_, used = {g for g, _ in grid}, {n for _, n in grid}
        sharing = {nic: sum(1 for _, n in grid if n == nic) for nic in used}
        parts.append(
            f"{plural(len(used), 'NIC')} {'carries' if len(used) == 1 else 'carry'} the connections of "
            f"{plural(len(locals_), 'GPU')} per node"
        )
        crowded = [n for n in sorted(used) if sharing[n] > 1]
        if crowded:
            parts.append(f"NIC {crowded[0]} serves {sharing[crowded[0]]} GPUs")
        else:
            parts.append("one NIC per GPU" if len(used) == len(locals_) else "several NICs per GPU")
        odd = view.odd_hosts
        if odd:
            parts.append(f"{view.alike} of {view.hosts} nodes use their NICs alike, different are {listed(odd, 6)}")
        elif view.hosts > 1:
            parts.append(f"{'both' if view.hosts == 2 else f'all {view.hosts:,}'} nodes use their NICs alike")
    if view.distance:
        far = [(g, n) for g, n in grid if view.distance.get((g, n), "PIX") not in _NEAR]
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


def _draw(view: GpuNics) -> str:
    gpus, every, names = view.gpus[:_MOST], view.nics[:_MOST], view.names
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
            far = view.distance.get((gpu, nic), "")
            used = view.connections.get((gpu, nic), 0)
            css = f"d-{far.lower()}" if far else ("d-any" if used else "d-none")
            if far:
                shown[far] = css
            said = f"GPU {gpu}, {names.get(nic, f'NIC {nic}')}: {far + ', ' if far else ''}{plural(used, 'connection')}"
            x = left + cell * x_at
            parts.append(svg.rect(x + 1, y + 1, cell - 2, row - 2, f"cell {css}" + (" used" if used else ""), said))
            if used:
                parts.append(svg.text(x + cell / 2, y + 21, f"{used:,}", "t c b"))
            elif far and cell >= 40:
                parts.append(svg.text(x + cell / 2, y + 21, far, "t c s"))
    height = top + row * len(gpus) + 26
    among = f" on all {view.hosts:,} nodes together" if view.hosts > 1 else ""
    used_key = ("cell d-any used", f"in use, with its connections{among}")
    entries = [(f"cell {shown[far]}", f"{far}: {what}") for far, what in _DISTANCES.items() if far in shown]
    keys, wide = svg.legend(left, height, [*entries, used_key])
    if wide > max(cell * len(every), 480):  # two rows where one is wider than the drawing
        keys, wide = svg.legend(left, height, entries)
        height += 22
        keys += svg.legend(left, height, [used_key])[0]
    return svg.drawing(left + max(cell * len(every), wide) + 10, height + 12, "GPU by NIC", [*parts, *keys])
