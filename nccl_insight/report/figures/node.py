"""Inside a node: GPUs with ranks, what joins them, NICs with names and speeds, and which GPU uses which NIC."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import polars as pl

from nccl_insight.facts.members import main_comm
from nccl_insight.facts.transports import net_links
from nccl_insight.model import Analysis
from nccl_insight.report.figures import svg
from nccl_insight.report.figures.base import MAX_ROWS, Figure
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
    named = {rank for f in analysis.findings if f.severity.value != "info" for rank in f.ranks}
    joined, how = _joined(run, first)
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
        svg=_draw(first, joined, how, named), wide=True,
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


def _draw(node: _Node, joined: bool, how: str, named: set[int]) -> str:
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
        parts.append(svg.rect(xs[rank], gpu_y, _BOX, 52, "box gpu hot" if hot else "box gpu"))
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
