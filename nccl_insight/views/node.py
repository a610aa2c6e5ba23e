"""Inside a node: GPUs with ranks, what joins them, NICs with names and speeds, and which GPU uses which NIC."""

from collections import Counter, defaultdict
from collections.abc import Mapping

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.facts.fabric.gpu_nics import Gpu, Nic, Topology, topology
from nccl_insight.facts.who.members import main_comm
from nccl_insight.facts.who.transports import net_links
from nccl_insight.tables.run import Run

__all__ = ["Gpu", "Nic", "Node", "NodeGpu", "NodeNic", "Nodes", "Topology", "nodes"]

_GPUS = 16


@dataclass(frozen=True)
class NodeGpu:
    """A rank of a node and its GPU: NCCL's number of it, and its bus id where known."""

    rank: int
    number: int | None
    bus_id: str | None


@dataclass(frozen=True)
class NodeNic:
    """A NIC of a node; ``name`` is None where the log has only its number."""

    index: int
    name: str | None
    speed_gbit: int | None


@dataclass(frozen=True)
class Node:
    """One host: its ranks in order, NICs by index, and how many connections each rank has over each NIC."""

    host: str
    gpus: tuple[NodeGpu, ...]
    nics: tuple[NodeNic, ...]
    uses: Mapping[tuple[int, int], int]

    def shape(self) -> tuple[object, ...]:
        """Equal for hosts that are built and used alike."""
        ranks = [g.rank for g in self.gpus]
        pairs = frozenset((ranks.index(rank), nic) for rank, nic in self.uses if rank in ranks)
        return len(ranks), self.nics, pairs


@dataclass(frozen=True)
class Nodes:
    """Nodes of the largest communicator: the first of the usual ones, and hosts that are built or used otherwise.

    ``switch``: NVSwitch joins the GPUs; ``nvls``: with NVLink SHARP. ``ways``: transports between the GPUs of the usual
    node, the most frequent first. ``topology``: of it, where the inputs describe one that fits.
    """

    nodes: tuple[Node, ...]
    usual: Node
    odd_hosts: tuple[str, ...]
    switch: bool
    nvls: bool
    ways: tuple[str, ...]
    topology: Topology | None


def nodes(run: Run) -> Nodes | None:
    """The nodes, None where no host of a rank is known or all are too large to draw."""
    found = _nodes(run)
    if not found:
        return None
    usual = Counter(n.shape() for n in found).most_common(1)[0][0]
    first = next(n for n in found if n.shape() == usual)
    nvls = any(int(c) > 0 for c in run.table("channel_counts")["nvls_channels"].drop_nulls())
    switch = run.table("topology_nodes").filter(pl.col("kind").cast(pl.String) == "NVS").height > 0
    known = topology(run)
    fits = known is not None and len(known.gpus) == len(first.gpus) and all(g.socket for g in known.gpus)
    return Nodes(
        nodes=tuple(found),
        usual=first,
        odd_hosts=tuple(n.host for n in found if n.shape() != usual),
        switch=switch or nvls,
        nvls=nvls,
        ways=_ways(run, first),
        topology=known if fits else None,
    )


def _ways(run: Run, node: Node) -> tuple[str, ...]:
    ranks = [g.rank for g in node.gpus]
    inside = run.table("connections").filter(pl.col("src_rank").is_in(ranks) & pl.col("dst_rank").is_in(ranks))
    ways = Counter(w for w in inside["transport"].cast(pl.String).to_list() if w)
    return tuple(way for way, _ in ways.most_common(3)) if len(ranks) > 1 else ()


def _nodes(run: Run) -> list[Node]:
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
    nics: dict[str, list[NodeNic]] = defaultdict(list)
    for host, index, name, speed in devices.select("host", "index", "name", "speed_gbit").iter_rows():
        nics[host].append(NodeNic(int(index), name or None, speed or None))
    uses: dict[str, Counter[tuple[int, int]]] = defaultdict(Counter)
    links = net_links(run).drop_nulls(["local_host", "local_rank_id", "net_dev"])
    keys = ["local_host", "local_rank_id", "net_dev"]
    for host, rank, nic, count in links.group_by(keys).len().sort(keys).iter_rows():
        uses[host][int(rank), int(nic)] += int(count)
    found = []
    gpu = pl.coalesce("nvml_dev", "cuda_dev")
    for (host,), part in ranks.group_by("host", maintain_order=True):
        gpus = tuple(NodeGpu(*row) for row in part.select("rank", gpu, "bus_id").iter_rows())
        known = nics.get(str(host), [])
        listed = {n.index for n in known}
        known += [NodeNic(nic, None, None) for nic in sorted({n for _, n in uses[str(host)]} - listed)]
        if len(gpus) <= _GPUS and len(known) <= 2 * _GPUS:
            found.append(Node(str(host), gpus, tuple(known), uses[str(host)]))
    return found
