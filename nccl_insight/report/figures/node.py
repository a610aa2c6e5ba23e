"""Inside a node: GPUs with ranks, what joins them, NICs with names and speeds, and which GPU uses which NIC."""

from nccl_insight.base.model import Analysis
from nccl_insight.base.units import plural
from nccl_insight.report.figures import node_topology, svg
from nccl_insight.report.figures.base import Figure, listing
from nccl_insight.report.figures.node_topology import BOX, GAP, LEFT
from nccl_insight.report.figures.nodes import named_ranks
from nccl_insight.views.node import Node, NodeGpu, NodeNic, Nodes


def node_diagram(analysis: Analysis, view: Nodes) -> Figure | None:
    """The usual node of the main communicator, and which hosts differ from it; None where nothing joins its GPUs."""
    first, odd = view.usual, view.odd_hosts
    named = named_ranks(analysis)
    how = _joined(view)
    if not (how or first.uses or view.topology):
        return None
    used = {nic for _, nic in first.uses}
    nics = plural(len(first.nics), "NIC") if first.nics else "no NIC in the inputs"
    said = [f"{plural(len(first.gpus), 'GPU')}, {nics}"]
    said += [how] if how else []
    if first.uses:
        idle = len(first.nics) - len(used)
        said.append(f"{plural(len(used), 'NIC')} in use" + (f", {idle} idle" if idle else ""))
    alike = len(view.nodes) - len(odd)
    title = f"Inside {first.host}" + (f" ({alike - 1} more like it)" if alike > 1 else "")
    if odd:
        said.append(f"built or used otherwise: {', '.join(odd[:6])}" + (" and more" if len(odd) > 6 else ""))
    drawing = (
        node_topology.draw(first, view.topology, {nic.index: _name(nic) for nic in first.nics}, view.nvls, named)
        if view.topology
        else _draw(first, view.switch, how, named)
    )
    rows = tuple((n.host, str(gpu.rank), _gpu(gpu), _nics_of(n, gpu.rank)) for n in view.nodes for gpu in n.gpus)
    return Figure(
        "node",
        title,
        "; ".join(said) + ".",
        listing("host|rank#|GPU|NICs (connections)", rows, "GPUs, ranks and NICs"),
        wide=True,
        svg=drawing,
    )


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


def _draw(node: Node, joined: bool, how: str, named: frozenset[int]) -> str:
    columns = max(len(node.gpus), len(node.nics), 2)
    width = 2 * LEFT + columns * BOX + (columns - 1) * GAP
    parts: list[str] = []

    def place(index: int, count: int) -> float:
        room = columns * BOX + (columns - 1) * GAP
        step = room / count
        return LEFT + step * index + (step - BOX) / 2

    top, gpu_y, nic_y = 14.0, 84.0, 214.0
    xs = {gpu.rank: place(i, len(node.gpus)) for i, gpu in enumerate(node.gpus)}
    ys = {nic.index: place(i, len(node.nics)) for i, nic in enumerate(node.nics)}
    if how:
        for x in xs.values():
            parts.append(svg.line(x + BOX / 2, top + 34, x + BOX / 2, gpu_y, "wire fast" if joined else "wire", 3))
        parts.append(svg.rect(LEFT, top, width - 2 * LEFT, 34, "box switch" if joined else "box plain"))
        parts.append(svg.text(width / 2, top + 22, how, "t c b", 90))
    for (rank, index), count in sorted(node.uses.items()):
        if rank in xs and index in ys:
            thick = min(1.5 + count / 8, 5)
            parts.append(svg.line(xs[rank] + BOX / 2, gpu_y + 52, ys[index] + BOX / 2, nic_y, "wire net", thick))
    for gpu in node.gpus:
        rank = gpu.rank
        hot = rank in named
        parts.append(svg.rect(xs[rank], gpu_y, BOX, 52, "box gpu hot" if hot else "box gpu", ranks=(rank,)))
        parts.append(svg.text(xs[rank] + BOX / 2, gpu_y + 22, f"rank {rank}" + (" (!)" if hot else ""), "t c b"))
        parts.append(svg.text(xs[rank] + BOX / 2, gpu_y + 41, _gpu(gpu), "t c s", 20))
    used = {nic for _, nic in node.uses}
    for nic in node.nics:
        speed = f"{nic.speed_gbit} Gb/s" if nic.speed_gbit else ""
        total = sum(count for (_, other), count in node.uses.items() if other == nic.index)
        idle = bool(node.uses) and nic.index not in used
        parts.append(svg.rect(ys[nic.index], nic_y, BOX, 52, "box idle" if idle else "box nic"))
        parts.append(svg.text(ys[nic.index] + BOX / 2, nic_y + 22, _name(nic), "t c b", 18))
        state = "idle" if idle else (f"{speed} {total} conn." if total else speed)
        parts.append(svg.text(ys[nic.index] + BOX / 2, nic_y + 41, state.strip(), "t c s", 22))
    height = (nic_y if node.nics else gpu_y) + 66
    return svg.drawing(width, height, f"Inside {node.host}: GPUs, ranks and NICs", parts)
