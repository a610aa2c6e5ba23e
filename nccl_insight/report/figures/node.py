"""Inside a node: GPUs with ranks, what joins them, NICs with names and speeds, and which GPU uses which NIC."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import polars as pl

from nccl_insight.facts.gpu_nics import Gpu, Nic, Topology, topology
from nccl_insight.facts.members import main_comm
from nccl_insight.facts.transports import net_links
from nccl_insight.model import Analysis
from nccl_insight.report.figures import svg
from nccl_insight.report.figures.base import MAX_ROWS, Figure
from nccl_insight.report.figures.nodes import named_ranks
from nccl_insight.tables.run import Run
from nccl_insight.units import plural

_GPUS = 16
_BOX, _GAP, _LEFT = 118, 14, 20


@dataclass(frozen=True)
class _Node:
    """One host: its ranks in order, NICs by index, and how many connections each rank has over each NIC."""

    host: str
    ranks: tuple[int, ...]
    gpus: tuple[str, ...]
    nics: tuple[tuple[int, str], ...]
    uses: Counter[tuple[int, int]] = field(default_factory=Counter)

    def shape(self) -> tuple[object, ...]:
        """Equal for hosts that are built and used alike."""
        pairs = frozenset((self.ranks.index(rank), nic) for rank, nic in self.uses if rank in self.ranks)
        return len(self.ranks), self.nics, pairs


def node_diagram(analysis: Analysis, run: Run) -> Figure | None:
    """The usual node of the main communicator, and which hosts differ from it."""
    nodes = _nodes(run)
    if not nodes:
        return None
    shapes = Counter(n.shape() for n in nodes)
    usual = shapes.most_common(1)[0][0]
    first = next(n for n in nodes if n.shape() == usual)
    odd = [n.host for n in nodes if n.shape() != usual]
    named = named_ranks(analysis)
    joined, how = _joined(run, first)
    known = topology(run)
    used = {nic for _, nic in first.uses}
    said = [f"{plural(len(first.ranks), 'GPU')}, {plural(len(first.nics), 'NIC')}"]
    said += [how] if how else []
    if first.uses:
        said.append(
            f"{plural(len(used), 'NIC')} in use" + ("" if len(used) == len(first.nics) else ", others idle")
        )
    alike = len(nodes) - len(odd)
    title = f"Inside {first.host}" + (f" ({alike - 1} more like it)" if alike > 1 else "")
    if odd:
        said.append(f"built or used otherwise: {', '.join(odd[:6])}" + (" and more" if len(odd) > 6 else ""))
    rows = tuple(
        (n.host, str(rank), gpu, _nics_of(n, rank))
        for n in nodes
        for rank, gpu in zip(n.ranks, n.gpus, strict=True)
    )
    return Figure(
        id="node", title=title, summary="; ".join(said) + ".", columns=("host", "rank", "GPU", "NICs (connections)"),
        rows=rows[:MAX_ROWS], total=len(rows), numeric=(1,), caption="GPUs, ranks and NICs",
        svg=_built(first, known, how, named) if known and _fits(first, known) else _draw(first, joined, how, named),
        wide=True,
    )  # fmt: skip


def _nics_of(node: _Node, rank: int) -> str:
    used = [(nic, count) for (other, nic), count in sorted(node.uses.items()) if other == rank]
    return ", ".join(f"{_nic(node, nic)} ({count})" for nic, count in used)


def _nic(node: _Node, index: int) -> str:
    return next((name for number, name in node.nics if number == index), f"NIC {index}").split(" ")[0]


def _nodes(run: Run) -> list[_Node]:
    main = main_comm(run)
    if main is None or main.comm_id is None:
        return []
    ranks = (
        run.table("ranks")
        .filter((pl.col("comm_id") == main.comm_id) & pl.col("host").is_not_null())
        .unique(["host", "rank"], keep="first", maintain_order=True)
        .sort("host", "rank")
    )
    devices = (
        run.table("net_devices")
        .filter(pl.col("host").is_not_null() & pl.col("index").is_not_null())
        .unique(["host", "index"], keep="first", maintain_order=True)
        .sort("host", "index")
    )
    nics: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for row in devices.iter_rows(named=True):
        speed = f" {row['speed_gbit']} Gb/s" if row["speed_gbit"] else ""
        nics[row["host"]].append((int(row["index"]), f"{row['name'] or 'NIC'}{speed}"))
    uses: dict[str, Counter[tuple[int, int]]] = defaultdict(Counter)
    links = net_links(run).drop_nulls(["local_host", "local_rank_id", "net_dev"])
    keys = ["local_host", "local_rank_id", "net_dev"]
    for host, rank, nic, count in links.group_by(keys).len().sort(keys).iter_rows():
        uses[host][int(rank), int(nic)] += int(count)
    found = []
    for (host,), part in ranks.group_by("host", maintain_order=True):
        numbers = tuple(int(r) for r in part["rank"])
        gpus = tuple(
            f"GPU {row['nvml_dev'] if row['nvml_dev'] is not None else row['cuda_dev']}"
            + (f" {row['bus_id']}" if row["bus_id"] else "")
            for row in part.iter_rows(named=True)
        )
        known = nics.get(str(host), [])
        listed = {n for n, _ in known}
        known += [(nic, f"NIC {nic}") for nic in sorted({n for _, n in uses[str(host)]} - listed)]
        if len(numbers) <= _GPUS and len(known) <= 2 * _GPUS:
            found.append(_Node(str(host), numbers, gpus, tuple(known), uses[str(host)]))
    return found


def _joined(run: Run, node: _Node) -> tuple[bool, str]:
    """Whether one switch joins the GPUs, and what the log says of their way to each other."""
    switch = run.table("topology_nodes").filter(pl.col("kind").cast(pl.String) == "NVS").height > 0
    counts = run.table("channel_counts")
    nvls = counts.height > 0 and any(int(c) > 0 for c in counts["nvls_channels"].to_list() if c is not None)
    if switch or nvls:
        return True, "NVSwitch" + (" with NVLink SHARP (NVLS)" if nvls else "")
    inside = run.table("connections").filter(
        pl.col("src_rank").is_in(list(node.ranks)) & pl.col("dst_rank").is_in(list(node.ranks))
    )
    ways = Counter(w for w in inside["transport"].cast(pl.String).to_list() if w)
    if not ways or len(node.ranks) < 2:
        return False, ""
    return False, "between GPUs: " + ", ".join(way for way, _ in ways.most_common(3))


def _fits(node: _Node, known: Topology) -> bool:
    """Whether the topology describes this node: as many GPUs, and above each a socket to draw."""
    return len(known.gpus) == len(node.ranks) and all(g.socket for g in known.gpus)


def _built(node: _Node, known: Topology, how: str, named: frozenset[int]) -> str:
    """The node as its topology describes it: NVLink above the GPUs, PCIe switches, NICs and sockets below."""
    sockets = list(dict.fromkeys(g.socket or "" for g in sorted(known.gpus, key=lambda g: g.index)))
    ranks = dict(zip((g.index for g in known.gpus), node.ranks, strict=True))
    names = dict(node.nics)
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
        label += " (NVLS in use)" if "NVLS" in how else ""
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
        name = names.get(nic.index, nic.name).split(" ")[0]
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


def _draw(node: _Node, joined: bool, how: str, named: frozenset[int]) -> str:
    columns = max(len(node.ranks), len(node.nics), 2)
    width = 2 * _LEFT + columns * _BOX + (columns - 1) * _GAP
    parts: list[str] = []

    def place(index: int, count: int) -> float:
        room = columns * _BOX + (columns - 1) * _GAP
        step = room / count
        return _LEFT + step * index + (step - _BOX) / 2

    top, gpu_y, nic_y = 14.0, 84.0, 214.0
    xs = {rank: place(i, len(node.ranks)) for i, rank in enumerate(node.ranks)}
    ys = {nic: place(i, len(node.nics)) for i, (nic, _) in enumerate(node.nics)}
    if how:
        for x in xs.values():
            parts.append(
                svg.line(x + _BOX / 2, top + 34, x + _BOX / 2, gpu_y, "wire fast" if joined else "wire", 3)
            )
        parts.append(svg.rect(_LEFT, top, width - 2 * _LEFT, 34, "box switch" if joined else "box plain"))
        parts.append(svg.text(width / 2, top + 22, how, "t c b", 90))
    for (rank, nic), count in sorted(node.uses.items()):
        if rank in xs and nic in ys:
            thick = min(1.5 + count / 8, 5)
            parts.append(
                svg.line(xs[rank] + _BOX / 2, gpu_y + 52, ys[nic] + _BOX / 2, nic_y, "wire net", thick)
            )
    for rank, gpu in zip(node.ranks, node.gpus, strict=True):
        hot = rank in named
        parts.append(svg.rect(xs[rank], gpu_y, _BOX, 52, "box gpu hot" if hot else "box gpu", ranks=(rank,)))
        parts.append(
            svg.text(xs[rank] + _BOX / 2, gpu_y + 22, f"rank {rank}" + (" (!)" if hot else ""), "t c b")
        )
        parts.append(svg.text(xs[rank] + _BOX / 2, gpu_y + 41, gpu, "t c s", 20))
    used = {nic for _, nic in node.uses}
    for nic, name in node.nics:
        first, _, speed = name.partition(" ")
        total = sum(count for (_, other), count in node.uses.items() if other == nic)
        idle = bool(node.uses) and nic not in used
        parts.append(svg.rect(ys[nic], nic_y, _BOX, 52, "box idle" if idle else "box nic"))
        parts.append(svg.text(ys[nic] + _BOX / 2, nic_y + 22, first, "t c b", 18))
        state = "idle" if idle else (f"{speed} {total} conn." if total else speed)
        parts.append(svg.text(ys[nic] + _BOX / 2, nic_y + 41, state.strip(), "t c s", 22))
    height = (nic_y if node.nics else gpu_y) + 66
    return svg.drawing(width, height, f"Inside {node.host}: GPUs, ranks and NICs", parts)
