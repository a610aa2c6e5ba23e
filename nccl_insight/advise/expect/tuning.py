"""NCCL's own cost model: the time it predicts for ring and tree from the searched graph.

NCCL chooses the algorithm and protocol with the least ``latency + size / bandwidth``. Both follow from the graph
(channels and their bandwidth inside and between nodes), the number of ranks and nodes, and constants that changed
between releases (``machines/nccl_tuning.toml``). Formulas: NVIDIA/nccl ``src/graph/tuning.cc``. Times in
microseconds, bandwidths in GB/s.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from nccl_insight.advise.expect.hardware import read_data
from nccl_insight.base.bandwidth import BULK
from nccl_insight.base.data import dataclass
from nccl_insight.base.grouping import grouped
from nccl_insight.base.versions import version_key

PROTOCOLS: Final = ("LL", "LL128", "Simple")
_LL, _LL128, _SIMPLE = range(3)
# Compute capabilities from which the next row of a table holds: Ampere, Hopper, Blackwell.
_GENERATIONS: Final = (80, 90, 100)
# Trees do not follow the model at medium sizes: share of the bandwidth by power of two from 64 B on.
_TREE_SHARE: Final = (
    (1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0, 1.0),
    (1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1.0, 1.0),
    (0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9),
)


@dataclass(frozen=True)
class Graph:
    """What NCCL's search found for one algorithm; bandwidths of one channel in GB/s.

    ``plain_tree``: pattern 3 (one GPU of a node talks to both neighbors), which costs some of the bandwidth.
    """

    channels: int
    bw_intra_gbps: float
    bw_inter_gbps: float
    nvlink: bool
    same_channels: bool = True
    plain_tree: bool = False
    latency_inter_us: float = 0.0


@dataclass(frozen=True)
class Job:
    """Ranks, nodes and machine as the model asks for them."""

    ranks: int
    nodes: int
    capability: int
    version: str
    amd_cpu: bool = False


@dataclass(frozen=True)
class Cost:
    """Predicted latency in us and algorithm bandwidth in GB/s of one algorithm and protocol."""

    algorithm: str
    protocol: str
    latency_us: float
    bandwidth_gbps: float


def printed(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Cost]]:
    """The costs in the rows of a table that NCCL prints, by operation: blocks of up to three algorithms, each behind a
    header. Of a table that is cut off, not every column is there."""
    found: list[tuple[str, Cost]] = []
    heads: list[tuple[str, str]] = []
    for row in rows:
        labels = row.get("labels") or []
        if row["row"] == "algorithms":
            heads = [(label, protocol) for label in labels for protocol in PROTOCOLS]
        elif row["row"] == "columns":
            heads = [(label.partition("/")[0], label.rpartition("/")[2]) for label in labels]
        elif row["row"] == "function":
            cells = zip(heads, row.get("latency_us") or [], row.get("model_bw_gbps") or [], strict=False)
            told = (
                Cost(*head, *cost) for head, *cost in cells if None not in cost and cost[1] and head[1] in PROTOCOLS
            )
            found += ((row["table_function"], cost) for cost in told)
    return grouped(found)


@cache
def _eras() -> tuple[Mapping[str, Any], ...]:
    return tuple(read_data("nccl_tuning.toml")["era"])


def _era(version: str) -> Mapping[str, Any]:
    key = version_key(version) or (0,)
    fitting = [era for era in _eras() if (version_key(era["since"]) or (0,)) <= key]
    return (fitting or _eras()[:1])[-1]


def costs(op: str, graphs: Mapping[str, Graph], job: Job) -> list[Cost]:
    """The model for ``Ring`` and, for AllReduce, ``Tree``; empty for one rank or another operation."""
    if job.ranks < 2 or op not in BULK:
        return []
    found: list[Cost] = []
    for name in ("Tree", "Ring"):
        if name in graphs and (name == "Ring" or op == "AllReduce"):
            for protocol in range(3):
                bandwidth = _bandwidth(name, protocol, op, graphs[name], job)
                latency = _latency(name, protocol, op, graphs[name], job)
                found.append(Cost(name, PROTOCOLS[protocol], latency, bandwidth))
    return found


def time_us(cost: Cost, op: str, size_bytes: int, job: Job, channels: int) -> float:
    """Predicted time of one operation of ``size_bytes``."""
    bandwidth, latency = cost.bandwidth_gbps, cost.latency_us
    step = (size_bytes >> 6).bit_length() - 1
    if cost.algorithm == "Tree" and 0 <= step < 23:
        bandwidth *= _TREE_SHARE[PROTOCOLS.index(cost.protocol)][step]
    if (
        cost.algorithm == "Ring"
        and cost.protocol == "Simple"
        and job.nodes > 1
        and op == "AllReduce"
        and size_bytes / (channels * job.ranks) >= 64
    ):
        latency *= _era(job.version)["plateau"][job.capability >= 80]
    return latency + size_bytes / (1000 * bandwidth)


def best(op: str, graphs: Mapping[str, Graph], job: Job, size_bytes: int) -> tuple[Cost, float] | None:
    """What NCCL would take of ring and tree, and its time in us."""
    timed = [(c, time_us(c, op, size_bytes, job, graphs[c.algorithm].channels)) for c in costs(op, graphs, job)]
    return min(timed, key=lambda pair: pair[1], default=None)


def _most(era: Mapping[str, Any], key: str, job: Job) -> float:
    """A limit per channel (or of LL as a whole) from the tables of an era."""
    column = min(job.nodes, 3) - 1
    rows = era[key]
    if key == "ll_max" and job.nodes > 1:
        row = int(job.amd_cpu)
    elif era.get("first"):
        row = int(job.capability == 80)
    else:
        row = min(bisect_right(_GENERATIONS, job.capability), len(rows) - 1)
    return float(rows[row][column])


def _bandwidth(name: str, protocol: int, op: str, graph: Graph, job: Job) -> float:
    era, n = _era(job.version), graph.channels
    bus = n * (graph.bw_intra_gbps if job.nodes <= 2 else graph.bw_inter_gbps)
    first = bool(era.get("first"))
    if first and job.capability == 80:
        bus = min(bus, 235.0)
    if name == "Ring":
        if protocol == _LL:
            share = (0.25 if job.nodes > 1 or op in {"AllReduce", "Reduce"} else 1 / 3) if first else 0.5
            bus = min(_most(era, "ll_max", job), bus * share)
        elif protocol == _LL128:
            alone = era["since"] in {"2.12", "2.18"} and job.ranks < 2 * job.nodes
            bus = min(bus * (0.7 if alone else 0.92), n * _most(era, "ring_ll128", job))
        steps = {"AllReduce": 2 * (job.ranks - 1), "AllGather": job.ranks - 1, "ReduceScatter": job.ranks - 1}
        return bus * job.ranks / steps.get(op, job.ranks)
    bus = min(bus * 0.92, n * _most(era, "tree", job))
    if protocol == _LL:
        bus = min(bus / 3.8, _most(era, "ll_max", job))
    elif protocol == _LL128:
        bus = min(bus * (7 / 9 if job.nodes == 1 else 120 / 128), n * _most(era, "tree_ll128", job))
    if graph.plain_tree and not first:
        bus *= 0.85
    return bus * 0.5


def _steps_us(name: str, protocol: int, graph: Graph, job: Job) -> tuple[float, float]:
    """What one step inside a node and one between nodes take."""
    era = _era(job.version)
    intra = float(era["nvlink" if graph.nvlink else "pci"][name][protocol])
    alone = job.ranks == job.nodes and era["since"] in {"2.23", "2.30"}
    inter = float(era["net"]["Tree" if alone else name][protocol])
    if era.get("first"):
        return intra * (1.8 if job.nodes > 1 and protocol == _LL else 1.0), graph.latency_inter_us or inter
    return intra, inter + graph.latency_inter_us * (2 if protocol == _SIMPLE else 1)


def _latency(name: str, protocol: int, op: str, graph: Graph, job: Job) -> float:
    era = _era(job.version)
    intra, inter = _steps_us(name, protocol, graph, job)
    start = float(era["base"][name][protocol])
    if name == "Tree":
        depth = job.nodes.bit_length() - 1
        return start + 2 * ((job.ranks // job.nodes - 1) * intra + depth * inter)
    links = era["net" if job.nodes > 1 else "nvlink" if graph.nvlink else "pci"]
    if op in {"Broadcast", "Reduce"}:
        step = float(links["Ring"][protocol])
        if graph.same_channels:
            return start + step
        return start + job.ranks * (float(links["Tree"][protocol]) if protocol == _SIMPLE else step)
    rounds = 2 if op == "AllReduce" else 1
    steps, crossings = rounds * (job.ranks - 1), rounds * (job.nodes - 1)
    if era["since"] in {"2.12", "2.18"} and job.nodes > 1 and op == "AllReduce":
        crossings = 2 * job.nodes
    if not era.get("first") and job.nodes > 1:
        overhead = (2.0 if job.amd_cpu else 1.0) * (3 if protocol == _SIMPLE else 1)
        intra = max(intra, overhead)
    return start + (steps - crossings) * intra + crossings * inter
