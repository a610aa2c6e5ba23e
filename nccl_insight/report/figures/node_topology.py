"""A node as its topology file describes it: NVLink above the GPUs, PCIe switches, NICs and sockets below."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from nccl_insight.base.data import dataclass
from nccl_insight.report.figures import svg
from nccl_insight.views.node import Nic, Node, NodeNic, Topology

BOX: Final = 118
GAP: Final = 14
LEFT: Final = 20
_NVLINK_Y: Final = 14.0
_GPU_Y: Final = 84.0
_PCI_Y: Final = 178.0
_NIC_Y: Final = 250.0
_CPU_Y: Final = 346.0


@dataclass(frozen=True)
class _Plan:
    """Where things stand: the center of each GPU and NIC by node name, left edge and width of each PCIe switch."""

    centers: Mapping[str, float]
    switches: tuple[tuple[str, float, float], ...]
    sockets: Mapping[str, tuple[float, float]]
    width: float


def draw(node: Node, known: Topology, names: Mapping[int, str], nvls: bool, named: frozenset[int]) -> str:
    """The drawing as SVG. ``names``: NICs by index; ``named``: ranks that findings name."""
    plan = _plan(known)
    parts = [
        *_frames(plan),
        *_nvlink(plan, known, nvls),
        *_gpus(plan, node, known, named),
        *_nics(plan, node, known, names),
        *_switches(plan),
        *_sockets(plan),
    ]
    title = f"Inside {node.host}: GPUs, ranks, PCIe switches, NICs and sockets"
    return svg.drawing(plan.width, _CPU_Y + 52, title, parts)


def _plan(known: Topology) -> _Plan:
    """Socket after socket, switch after switch; a switch is as wide as its GPUs or its NICs."""
    gpus: dict[str, list[str]] = defaultdict(list)
    nics: dict[str, list[str]] = defaultdict(list)
    for gpu in known.gpus:
        gpus[gpu.switch or gpu.socket or ""].append(gpu.node)
    for nic in known.nics:
        nics[nic.switch or nic.socket or ""].append(nic.node)
    centers: dict[str, float] = {}
    switches: list[tuple[str, float, float]] = []
    sockets: dict[str, tuple[float, float]] = {}
    x = float(LEFT)
    for socket in dict.fromkeys(g.socket or "" for g in sorted(known.gpus, key=lambda g: g.index)):
        start = x
        here = [g.switch or socket for g in known.gpus if g.socket == socket]
        here += [n.switch or socket for n in known.nics if n.socket == socket]
        for switch in dict.fromkeys(here):
            columns = max(len(gpus[switch]), len(nics[switch]), 1)
            wide = columns * BOX + (columns - 1) * GAP
            switches.append((switch, x, wide))
            for row in (gpus[switch], nics[switch]):
                centers.update({name: x + wide * (n + 0.5) / len(row) for n, name in enumerate(row)})
            x += wide + 2 * GAP
        sockets[socket] = (start, x - 2 * GAP)
        x += GAP
    return _Plan(centers, tuple(switches), sockets, x - GAP)


def _joined(known: Topology) -> bool:
    return known.switched or any(known.nvlinks.values())


def _frames(plan: _Plan) -> Iterator[str]:
    for start, end in plan.sockets.values():
        yield svg.rect(start - 8, _GPU_Y - 14, end - start + 16, _CPU_Y + 56 - _GPU_Y, "socket")


def _nvlink(plan: _Plan, known: Topology, nvls: bool) -> Iterator[str]:
    if not _joined(known):
        return
    links = max(known.nvlinks.values(), default=0)
    speed = max(known.nvlink_gbps.values(), default=0.0)
    what = "NVSwitch" if known.switched else "NVLink between the GPUs"
    label = f"{what}: {links} links per GPU" + (f", {speed:.0f} GB/s each way" if speed else "")
    label += " (NVLS in use)" if nvls else ""
    yield svg.rect(LEFT, _NVLINK_Y, plan.width - 2 * LEFT, 34, "box switch")
    yield svg.text(plan.width / 2, _NVLINK_Y + 22, label, "t c b", 100)


def _gpus(plan: _Plan, node: Node, known: Topology, named: frozenset[int]) -> Iterator[str]:
    joined = _joined(known)
    for gpu, used in zip(known.gpus, node.gpus, strict=True):
        center = plan.centers[gpu.node]
        if joined and known.nvlinks.get(gpu.index, 0):
            yield svg.line(center, _NVLINK_Y + 34, center, _GPU_Y, "wire fast", 3)
        yield svg.line(center, _GPU_Y + 52, center, _PCI_Y, "wire", 2)
        yield from gpu_box(center, _GPU_Y, used.rank, f"GPU {gpu.index} {gpu.bus_id.removeprefix('0000:')}", named)


def gpu_box(center: float, y: float, rank: int, said: str, named: frozenset[int]) -> Iterator[str]:
    """A GPU with its rank, marked where findings name that."""
    hot = rank in named
    yield svg.rect(center - BOX / 2, y, BOX, 52, "box gpu hot" if hot else "box gpu", ranks=(rank,))
    yield svg.text(center, y + 22, f"rank {rank}" + (" (!)" if hot else ""), "t c b")
    yield svg.text(center, y + 41, said, "t c s", 20)


def nic_box(center: float, y: float, node: Node, nic: NodeNic | Nic, name: str, limit: int) -> Iterator[str]:
    """A NIC with its name, speed and connections; pale where others are used and it is not."""
    total = sum(count for (_, other), count in node.uses.items() if other == nic.index)
    idle = bool(node.uses) and all(other != nic.index for _, other in node.uses)
    speed = f"{nic.speed_gbit} Gb/s" if nic.speed_gbit else ""
    state = "idle" if idle else " ".join(filter(None, (speed, f"{total} conn." if total else "")))
    yield svg.rect(center - BOX / 2, y, BOX, 52, "box idle" if idle else "box nic")
    yield svg.text(center, y + 22, name, "t c b", limit)
    yield svg.text(center, y + 41, state, "t c s", 22)


def _nics(plan: _Plan, node: Node, known: Topology, names: Mapping[int, str]) -> Iterator[str]:
    for nic in known.nics:
        center = plan.centers[nic.node]
        total = sum(count for (_, other), count in node.uses.items() if other == nic.index)
        wire, thickness = ("wire net", 3.0) if total else ("wire", 1.5)
        yield svg.line(center, _PCI_Y + 28, center, _NIC_Y, wire, thickness)
        yield from nic_box(center, _NIC_Y, node, nic, names.get(nic.index, nic.name), 16)


def _switches(plan: _Plan) -> Iterator[str]:
    for switch, begin, wide in plan.switches:
        if not switch.startswith("CPU"):
            name = f"PCIe switch {switch.rpartition('-')[2]}"
            yield svg.rect(begin, _PCI_Y, wide, 28, "box plain")
            yield svg.text(begin + wide / 2, _PCI_Y + 18, name, "t c s", 30)
        yield svg.path(f"M{begin:g} {_PCI_Y + 14:g}h-4V{_CPU_Y + 15:g}h4", "wire bent", 1.5)


def _sockets(plan: _Plan) -> Iterator[str]:
    for socket, (start, end) in plan.sockets.items():
        name = f"CPU (NUMA node {socket.rpartition('-')[2]})"
        yield svg.rect(start, _CPU_Y, end - start, 30, "box plain")
        yield svg.text((start + end) / 2, _CPU_Y + 20, name, "t c b")
