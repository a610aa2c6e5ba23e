"""Inside a node: GPUs with ranks, what joins them, NICs with names and speeds, and which GPU uses which NIC."""

from nccl_insight.base.model import Analysis
from nccl_insight.base.units import plural
from nccl_insight.report.figures import node_topology, svg
from nccl_insight.report.figures.base import Figure, listing
from nccl_insight.report.figures.node_topology import BOX, GAP, LEFT, gpu_box, nic_box
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
    room = columns * BOX + (columns - 1) * GAP
    top, gpu_y, nic_y = 14.0, 84.0, 214.0
    xs = {gpu.rank: LEFT + room * (i + 0.5) / len(node.gpus) for i, gpu in enumerate(node.gpus)}
    ys = {nic.index: LEFT + room * (i + 0.5) / len(node.nics) for i, nic in enumerate(node.nics)}
    width = 2 * LEFT + room
    parts: list[str] = []
    if how:
        parts += [svg.line(x, top + 34, x, gpu_y, "wire fast" if joined else "wire", 3) for x in xs.values()]
        parts.append(svg.rect(LEFT, top, room, 34, "box switch" if joined else "box plain"))
        parts.append(svg.text(width / 2, top + 22, how, "t c b", 90))
    for (rank, index), count in sorted(node.uses.items()):
        if rank in xs and index in ys:
            parts.append(svg.line(xs[rank], gpu_y + 52, ys[index], nic_y, "wire net", min(1.5 + count / 8, 5)))
    for gpu in node.gpus:
        parts += gpu_box(xs[gpu.rank], gpu_y, gpu.rank, _gpu(gpu), named)
    for nic in node.nics:
        parts += nic_box(ys[nic.index], nic_y, node, nic, _name(nic), 18)
    height = (nic_y if node.nics else gpu_y) + 66
    return svg.drawing(width, height, f"Inside {node.host}: GPUs, ranks and NICs", parts)
