"""Inside a node: GPUs with ranks, what joins them, NICs with names and speeds, and which GPU uses which NIC."""

from __future__ import annotations

from collections import defaultdict

from nccl_insight.model import Analysis
from nccl_insight.report.figures import svg
from nccl_insight.report.figures.base import MAX_ROWS, Figure
from nccl_insight.report.figures.nodes import named_ranks
from nccl_insight.units import plural
from nccl_insight.views.node import Gpu, Nic, Node, NodeGpu, NodeNic, Nodes, Topology

_BOX, _GAP, _LEFT = 118, 14, 20


def node_diagram(analysis: Analysis, view: Nodes) -> Figure:
    """The usual node of the main communicator, and which hosts differ from it."""
    first, odd = view.usual, view.odd_hosts
    named = named_ranks(analysis)
    how = _joined(view)
    used = {nic for _, nic in first.uses}
    said = [f"{plural(len(first.gpus), 'GPU')}, {plural(len(first.nics), 'NIC')}"]
    said += [how] if how else []
    if first.uses:
        said.append(
            f"{plural(len(used), 'NIC')} in use" + ("" if len(used) == len(first.nics) else ", others idle")
        )
    alike = len(view.nodes) - len(odd)
    title = f"Inside {first.host}" + (f" ({alike - 1} more like it)" if alike > 1 else "")
    if odd:
        said.append(f"built or used otherwise: {', '.join(odd[:6])}" + (" and more" if len(odd) > 6 else ""))
    drawing = (
        _built(first, view.topology, view.nvls, named)
        if view.topology
        else _draw(first, view.switch, how, named)
    )
    rows = tuple(
        (n.host, str(gpu.rank), _gpu(gpu), _nics_of(n, gpu.rank)) for n in view.nodes for gpu in n.gpus
    )
    return Figure(
        id="node", title=title, summary="; ".join(said) + ".", columns=("host", "rank", "GPU", "NICs (connections)"),
        rows=rows[:MAX_ROWS], total=len(rows), numeric=(1,), caption="GPUs, ranks and NICs",
        svg=drawing, wide=True,
    )  # fmt: skip


def _nics_of(node: Node, rank: int) -> str:
    names = {nic.index: _name(nic) for nic in node.nics}
    return ", ".join(
        f"{names.get(nic, f'NIC {nic}')} ({count})"
        for (other, nic), count in sorted(node.uses.items())
        if other == rank
    )


def _name(nic: NodeNic) -> str:
    return nic.name or f"NIC {nic.index}"


def _gpu(gpu: NodeGpu) -> str:
    return f"GPU {gpu.number}" + (f" {gpu.bus_id}" if gpu.bus_id else "")


def _joined(view: Nodes) -> str:
    """What the log says of the way of the GPUs to each other."""
    if view.switch:
        return "NVSwitch" + (" with NVLink SHARP (NVLS)" if view.nvls else "")
    return f"between GPUs: {', '.join(view.ways)}" if view.ways else ""


def _built(node: Node, known: Topology, nvls: bool, named: frozenset[int]) -> str:
    """The node as its topology describes it: NVLink above the GPUs, PCIe switches, NICs and sockets below."""
    sockets = list(dict.fromkeys(g.socket or "" for g in sorted(known.gpus, key=lambda g: g.index)))
    ranks = dict(zip((g.index for g in known.gpus), (g.rank for g in node.gpus), strict=True))
    names = {nic.index: _name(nic) for nic in node.nics}
    spot: dict[str, float] = {}
    spans: dict[str, tuple[float, float]] = {}
    under: dict[str, list[Gpu]] = defaultdict(list)
    below: dict[str, list[Nic]] = defaultdict(list)
    for gpu in known.gpus:
        under[gpu.switch or gpu.socket or ""].append(gpu)
    for nic in known.nics:
        below[nic.switch or nic.socket or ""].append(nic)
    x = float(_LEFT)
    groups: list[tuple[str, float, float]] = []
    for socket in sockets:
        start = x
        switches = dict.fromkeys(
            [g.switch or g.socket or "" for g in known.gpus if g.socket == socket]
            + [n.switch or n.socket or "" for n in known.nics if n.socket == socket]
        )
        for switch in switches:
            columns = max(len(under[switch]), len(below[switch]), 1)
            wide = columns * _BOX + (columns - 1) * _GAP
            groups.append((switch, x, wide))
            for nodes in ([g.node for g in under[switch]], [n.node for n in below[switch]]):
                for n, name in enumerate(nodes):
                    spot[name] = x + wide * (n + 0.5) / len(nodes)
            x += wide + 2 * _GAP
        spans[socket] = (start, x - 2 * _GAP)
        x += _GAP
    width = x - _GAP
    joined = known.switched or any(known.nvlinks.values())
    top, gpu_y, pci_y, nic_y, cpu_y = 14.0, 84.0, 178.0, 250.0, 346.0
    parts: list[str] = []
    for start, end in spans.values():
        parts.append(svg.rect(start - 8, gpu_y - 14, end - start + 16, cpu_y + 56 - gpu_y, "socket"))
    if joined:
        links = max(known.nvlinks.values(), default=0)
        speed = max(known.nvlink_gbps.values(), default=0.0)
        what = "NVSwitch" if known.switched else "NVLink between the GPUs"
        label = f"{what}: {links} links per GPU" + (f", {speed:.0f} GB/s each way" if speed else "")
        label += " (NVLS in use)" if nvls else ""
        parts.append(svg.rect(_LEFT, top, width - 2 * _LEFT, 34, "box switch"))
        parts.append(svg.text(width / 2, top + 22, label, "t c b", 100))
    for gpu in known.gpus:
        cx, rank = spot[gpu.node], ranks[gpu.index]
        if joined and known.nvlinks.get(gpu.index, 0):
            parts.append(svg.line(cx, top + 34, cx, gpu_y, "wire fast", 3))
        parts.append(svg.line(cx, gpu_y + 52, cx, pci_y, "wire", 2))
        hot = rank in named
        parts.append(
            svg.rect(cx - _BOX / 2, gpu_y, _BOX, 52, "box gpu hot" if hot else "box gpu", ranks=(rank,))
        )
        parts.append(svg.text(cx, gpu_y + 22, f"rank {rank}" + (" (!)" if hot else ""), "t c b"))
        parts.append(
            svg.text(cx, gpu_y + 41, f"GPU {gpu.index} {gpu.bus_id.removeprefix('0000:')}", "t c s", 20)
        )
    used = {nic for _, nic in node.uses}
    for nic in known.nics:
        cx = spot[nic.node]
        idle = bool(node.uses) and nic.index not in used
        total = sum(count for (_, other), count in node.uses.items() if other == nic.index)
        parts.append(
            svg.line(cx, pci_y + 28, cx, nic_y, "wire net" if total else "wire", 3 if total else 1.5)
        )
        parts.append(svg.rect(cx - _BOX / 2, nic_y, _BOX, 52, "box idle" if idle else "box nic"))
        name = names.get(nic.index, nic.name)
        speed_text = f"{nic.speed_gbit} Gb/s" if nic.speed_gbit else ""
        state = "idle" if idle else " ".join(filter(None, (speed_text, f"{total} conn." if total else "")))
        parts.append(svg.text(cx, nic_y + 22, name, "t c b", 16))
        parts.append(svg.text(cx, nic_y + 41, state, "t c s", 22))
    for switch, begin, span in groups:
        direct = switch.startswith("CPU")
        if not direct:
            parts.append(svg.rect(begin, pci_y, span, 28, "box plain"))
            parts.append(
                svg.text(
                    begin + span / 2, pci_y + 18, f"PCIe switch {switch.rpartition('-')[2]}", "t c s", 30
                )
            )
        parts.append(svg.path(f"M{begin:g} {pci_y + 14:g}h-4V{cpu_y + 15:g}h4", "wire bent", 1.5))
    for socket, (start, end) in spans.items():
        parts.append(svg.rect(start, cpu_y, end - start, 30, "box plain"))
        parts.append(
            svg.text((start + end) / 2, cpu_y + 20, f"CPU (NUMA node {socket.rpartition('-')[2]})", "t c b")
        )
    return svg.drawing(
        width, cpu_y + 52, f"Inside {node.host}: GPUs, ranks, PCIe switches, NICs and sockets", parts
    )


def _draw(node: Node, joined: bool, how: str, named: frozenset[int]) -> str:
    columns = max(len(node.gpus), len(node.nics), 2)
    width = 2 * _LEFT + columns * _BOX + (columns - 1) * _GAP
    parts: list[str] = []

    def place(index: int, count: int) -> float:
        room = columns * _BOX + (columns - 1) * _GAP
        step = room / count
        return _LEFT + step * index + (step - _BOX) / 2

    top, gpu_y, nic_y = 14.0, 84.0, 214.0
    xs = {gpu.rank: place(i, len(node.gpus)) for i, gpu in enumerate(node.gpus)}
    ys = {nic.index: place(i, len(node.nics)) for i, nic in enumerate(node.nics)}
    if how:
        for x in xs.values():
            parts.append(
                svg.line(x + _BOX / 2, top + 34, x + _BOX / 2, gpu_y, "wire fast" if joined else "wire", 3)
            )
        parts.append(svg.rect(_LEFT, top, width - 2 * _LEFT, 34, "box switch" if joined else "box plain"))
        parts.append(svg.text(width / 2, top + 22, how, "t c b", 90))
    for (rank, index), count in sorted(node.uses.items()):
        if rank in xs and index in ys:
            thick = min(1.5 + count / 8, 5)
            parts.append(
                svg.line(xs[rank] + _BOX / 2, gpu_y + 52, ys[index] + _BOX / 2, nic_y, "wire net", thick)
            )
    for gpu in node.gpus:
        rank = gpu.rank
        hot = rank in named
        parts.append(svg.rect(xs[rank], gpu_y, _BOX, 52, "box gpu hot" if hot else "box gpu", ranks=(rank,)))
        parts.append(
            svg.text(xs[rank] + _BOX / 2, gpu_y + 22, f"rank {rank}" + (" (!)" if hot else ""), "t c b")
        )
        parts.append(svg.text(xs[rank] + _BOX / 2, gpu_y + 41, _gpu(gpu), "t c s", 20))
    used = {nic for _, nic in node.uses}
    for nic in node.nics:
        speed = f"{nic.speed_gbit} Gb/s" if nic.speed_gbit else ""
        total = sum(count for (_, other), count in node.uses.items() if other == nic.index)
        idle = bool(node.uses) and nic.index not in used
        parts.append(svg.rect(ys[nic.index], nic_y, _BOX, 52, "box idle" if idle else "box nic"))
        parts.append(svg.text(ys[nic.index] + _BOX / 2, nic_y + 22, _name(nic), "t c b", 18))
        state = "idle" if idle else (f"{speed} {total} conn." if total else speed)
        parts.append(svg.text(ys[nic.index] + _BOX / 2, nic_y + 41, state.strip(), "t c s", 22))
    height = (nic_y if node.nics else gpu_y) + 66
    return svg.drawing(width, height, f"Inside {node.host}: GPUs, ranks and NICs", parts)
