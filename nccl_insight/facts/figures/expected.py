"""What the collectives of a run should reach: NCCL's own model in the log, its searched graph, the hardware table.

The sources in this order; every answer names its source. NCCL's model knows the machine as NCCL found it, so it
also works on machines that no table lists; the hardware table knows what healthy machines of a kind reach, so it
also notices when NCCL found less than there should be.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final, TypeAlias

import polars as pl

from nccl_insight.advise.expect.hardware import Gpu, find_gpu, networks
from nccl_insight.advise.expect.machine import Machine, parse_nics
from nccl_insight.advise.expect.model import OPS, parts_of
from nccl_insight.advise.expect.tuning import Cost, Graph, Job, costs, printed, time_us
from nccl_insight.base.bandwidth import busbw_expr, busbw_factor
from nccl_insight.base.data import dataclass
from nccl_insight.base.grouping import grouped
from nccl_insight.facts.fabric.networks import networks_in_use, nics
from nccl_insight.facts.who.transports import links
from nccl_insight.tables.run import Run, fact

STATED: Final = "NCCL's own prediction in the log"
LOG: Final = "NCCL's tuning table in the log"
GRAPH: Final = "NCCL's formulas on the graph in the log"
HARDWARE: Final = "the hardware table"
# NCCL's model is a choice between algorithms, not a promise: healthy machines reach this much of it.
_MODEL_RANGE: Final = (0.6, 1.25)
_ALGORITHMS: Final = {"RING": "Ring", "TREE": "Tree"}
_PATTERNS: Final = {1: "Tree", 2: "Tree", 3: "Tree", 4: "Ring"}
_PLAIN_TREE: Final = 3
_SHARED_GPU: Final = -1
_FORCING: Final = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_NVLS_ENABLE", "NCCL_COLLNET_ENABLE")


@dataclass(frozen=True)
class Band:
    """Expected bus bandwidth in GB/s of one operation and size, what bounds it, and where the figure is from."""

    op: str
    size_bytes: int
    time_us: float
    busbw_gbps: float
    low_gbps: float
    high_gbps: float
    bound_by: str
    algorithm: str
    protocol: str
    source: str

    @property
    def time_ns(self) -> float:
        """Expected time of one operation."""
        return self.time_us * 1e3


@dataclass(frozen=True)
class Prediction:
    """NCCL's own model of one communicator. ``forced_by``: settings that take algorithms or protocols away."""

    comm_id: str
    nranks: int
    nodes: int
    bands: tuple[Band, ...]
    source: str
    forced_by: str


def predictions(run: Run, ops: tuple[str, ...], sizes: tuple[int, ...]) -> list[Prediction]:
    """NCCL's own prediction for every communicator whose model the log shows."""
    settings = dict(run.table("env").select("name", "value").iter_rows())
    forced = ", ".join(f"{name}={settings[name]}" for name in _FORCING if settings.get(name))
    models = _models(run)
    stated = _stated(run)
    found: list[Prediction] = []
    for comm in run.table("communicators").iter_rows(named=True):
        name, nranks, nodes = comm["comm_id"], comm["nranks"], comm["n_nodes"]
        if not name or not nranks:
            continue
        said = {op: tuple(row[0] for row in stated.get((name, op), ())) for op in ops}
        bands = [
            predicted(run, op, size, nranks, name)
            for op in ops
            for size in (sizes if name in models and not said[op] else said[op])
        ]
        known = tuple(band for band in bands if band is not None)
        if known:
            found.append(Prediction(name, nranks, nodes or 1, known, known[0].source, forced))
    return found


def choices(run: Run, op: str, nranks: int, comm_id: str) -> list[tuple[int, int, str, str]]:
    """What NCCL's model takes by size: first and last power of two in bytes, algorithm, protocol; 64 B to 8 GiB."""
    found: list[tuple[int, int, str, str]] = []
    for size in (64 << i for i in range(28)):
        band = predicted(run, op, size, nranks, comm_id)
        if band is None or band.source == STATED:
            return []
        if found and found[-1][2:] == (band.algorithm, band.protocol):
            found[-1] = (found[-1][0], size, band.algorithm, band.protocol)
        else:
            found.append((size, size, band.algorithm, band.protocol))
    return found


def expected(
    run: Run, op: str, size_bytes: int, nranks: int, nodes: int | None = None, comm_id: str | None = None
) -> Band | None:
    """The expectation for one operation of a group; None where neither log nor hardware table tell.

    ``comm_id`` picks the communicator; without it the only one with ``nranks`` ranks. ``nodes`` is needed for the
    hardware table if the log does not say it.
    """
    if nranks < 2 or size_bytes <= 0 or op not in OPS:
        return None
    by_log = predicted(run, op, size_bytes, nranks, comm_id)
    if by_log is not None:
        return by_log
    machine = machine_of(run, nranks, nodes)
    parts = None if machine is None else parts_of(machine, op)
    if parts is None:
        return None
    e = parts.at(size_bytes)
    rates = e.busbw_gbps, e.busbw_low_gbps, e.busbw_high_gbps
    return Band(op, size_bytes, e.time_us, *rates, e.bound_by, e.algorithm, "", HARDWARE)


def predicted(run: Run, op: str, size_bytes: int, nranks: int, comm_id: str | None = None) -> Band | None:
    """NCCL's own prediction: what it says for this call, its tuning table, its formulas on the graphs of the log."""
    comm = _communicator(run, nranks, comm_id)
    factor = busbw_factor(op, nranks)
    if comm is None or factor is None:
        return None
    low, high = _MODEL_RANGE

    def band(time_us: float, bound: str, algorithm: str, protocol: str, source: str) -> Band:
        busbw = size_bytes / time_us / 1e3 * factor
        rates = busbw, busbw * low, busbw * high
        return Band(op, size_bytes, time_us, *rates, bound, algorithm, protocol, source)

    said = _said(_stated(run).get((comm["comm_id"], op), ()), size_bytes)
    if said is not None:
        time, algorithm, protocol = said
        return band(time, "", algorithm, protocol, STATED)
    model = _models(run).get(comm["comm_id"])
    if model is None:
        return None
    timed = [
        (time_us(cost, op, size_bytes, model.job, model.channels), cost)
        for cost in model.costs.get(op, ())
        if cost.bandwidth_gbps > 0
    ]
    if not timed:
        return None
    time, cost = min(timed, key=lambda pair: pair[0])
    latency = time - size_bytes / (1e3 * cost.bandwidth_gbps) > time / 2
    bound = "latency" if latency else "the links of NCCL's graph"
    return band(time, bound, cost.algorithm, cost.protocol, model.source)


_Said: TypeAlias = tuple[tuple[int, float, str, str], ...]


@fact
def _stated(run: Run) -> dict[tuple[str, str], _Said]:
    """Times that NCCL predicted for single calls (2.31 and later): size, us, algorithm, protocol by communicator."""
    rows = run.table("predicted").drop_nulls(["comm_id", "op", "algorithm"])
    rows = rows.filter("chosen", (pl.col("source") != "table").fill_null(True))
    rows = (
        rows.filter(pl.col("predicted_ns") > 0, pl.col("size_bytes") > 0)
        .group_by("comm_id", pl.col("op").cast(pl.String), "size_bytes")
        .agg(pl.col("predicted_ns").median(), pl.col("algorithm", "protocol").first())
        .sort("size_bytes")
    )
    found = grouped(
        ((comm, op), (size, ns / 1e3, alg, proto or "")) for comm, op, size, ns, alg, proto in rows.iter_rows()
    )
    return {key: tuple(values) for key, values in found.items()}


def _said(stated: _Said, size: int) -> tuple[float, str, str] | None:
    """The time for a size: as said, or between two sizes that are at most 16 times apart."""
    below = next((row for row in reversed(stated) if row[0] <= size), None)
    above = next((row for row in stated if row[0] >= size), None)
    if below is None or above is None or above[0] > 16 * below[0]:
        return None
    if below[0] == above[0]:
        return below[1], below[2], below[3]
    share = math.log(size / below[0]) / math.log(above[0] / below[0])
    nearer = below if share < 0.5 else above
    return math.exp((1 - share) * math.log(below[1]) + share * math.log(above[1])), nearer[2], nearer[3]


@dataclass(frozen=True)
class _Model:
    job: Job
    channels: int
    costs: Mapping[str, Sequence[Cost]]
    source: str


def _communicator(run: Run, nranks: int, comm_id: str | None) -> dict[str, Any] | None:
    comms = run.table("communicators").filter(pl.col("nranks") == nranks)
    if comm_id is not None:
        comms = comms.filter(pl.col("comm_id") == comm_id)
    return comms.row(0, named=True) if comms.height and comms["n_nodes"].n_unique() == 1 else None


@fact
def _models(run: Run) -> dict[str, _Model]:
    """NCCL's model of every communicator that the log describes."""
    graphs = run.table("graphs").filter(pl.col("comm_id").is_not_null())
    table = run.table("tuning_model")
    found: dict[str, _Model] = {}
    for comm in run.table("communicators").iter_rows(named=True):
        name, nranks, nodes = comm["comm_id"], comm["nranks"], comm["n_nodes"]
        if not name or not nranks or not nodes or nranks < 2:
            continue
        searched = _graphs(graphs.filter(pl.col("comm_id") == name)) if graphs.height else {}
        versions = comm["nccl_versions"] or []
        gpu = gpu_of(run)
        job = Job(nranks, nodes, gpu.capability if gpu else 90, versions[0] if versions else "")
        channels = max((g.channels for g in searched.values()), default=1)
        if table.height:
            rows = table.filter(pl.col("comm_id") == name).sort("line").iter_rows(named=True)
            if read := printed(row for row in rows if row["row"] != "columns"):
                found[name] = _Model(job, channels, read, LOG)
                continue
        # A forced or excluded algorithm has no graph, and other algorithms (NVLS) may win: ring and tree must be there.
        if set(searched) >= {"Ring", "Tree"} and versions and gpu is not None and not _other_algorithms(run):
            found[name] = _Model(job, channels, {op: costs(op, searched, job) for op in OPS}, GRAPH)
    return found


def _other_algorithms(run: Run) -> bool:
    algorithms = run.table("graphs")["algorithm"].drop_nulls().str.to_uppercase().unique().to_list()
    return any(a.startswith(("NVLS", "COLLNET")) for a in algorithms)


def _graphs(rows: pl.DataFrame) -> dict[str, Graph]:
    found: dict[str, Graph] = {}
    for row in rows.iter_rows(named=True):
        name = _ALGORITHMS.get((row["algorithm"] or "").upper()) or _PATTERNS.get(row["pattern"] or 0)
        values = (row["n_channels"], row["bw_intra_gbps"], row["bw_inter_gbps"])
        if name is None or name in found or None in values:
            continue
        found[name] = Graph(
            channels=row["n_channels"],
            bw_intra_gbps=row["bw_intra_gbps"],
            bw_inter_gbps=row["bw_inter_gbps"],
            nvlink=row["type_intra"] == "NVL",
            same_channels=bool(row["same_channels"]),
            plain_tree=row["pattern"] == _PLAIN_TREE,
        )
    return found


# Hardware


@fact
def gpu_of(run: Run) -> Gpu | None:
    """The GPU model, if the run names exactly one that the table knows."""
    names = {name for table in ("benchmarks", "trace_info") for name in run.table(table)["gpu"].drop_nulls().unique()}
    models = {find_gpu(name) for name in names}
    return models.pop() if len(models) == 1 else None


def machine_of(run: Run, nranks: int, nodes: int | None = None) -> Machine | None:
    """The machine of a group as the run shows it; None if the GPU model or the nodes are not known."""
    gpu = gpu_of(run)
    if nodes is None:
        seen = run.table("communicators").filter(pl.col("nranks") == nranks)["n_nodes"].drop_nulls().unique()
        nodes = int(seen[0]) if seen.len() == 1 else None
    if gpu is None or nodes is None or nodes < 1 or nranks % nodes:
        return None
    count, gbit, kind = _nics(run)
    said = run.asked.nics or gpu.nics
    if not count and nodes > 1 and said:
        (count, gbit), kind = parse_nics(said), "unknown" if run.asked.nics else gpu.network
    env = dict(run.table("env").select("name", "value").iter_rows())
    used = links(run).filter(pl.col("transport") == "NET")
    gdr = bool(used["gdr"].fill_null(False).any()) if used.height else None
    return Machine(
        gpu=gpu,
        gpus_per_node=nranks // nodes,
        nodes=nodes,
        fabric=gpu.fabric,
        network=networks()[kind],
        nics=count,
        nic_gbit=gbit,
        gdr=gdr,
        nvls=False if str(env.get("NCCL_NVLS_ENABLE", "")).strip() == "0" else None,
    )


def _nics(run: Run) -> tuple[int, float, str]:
    """NICs of the poorest host, their usual rate in Gbit/s, and the kind of network."""
    used = [name.upper() for name in networks_in_use(run)]
    rows = nics(run).filter(pl.col("speed_gbit") > 0)
    rdma = rows.filter(pl.col("link_layer") != "Socket")
    tcp = bool(used) and all("SOCKET" in name for name in used)
    rows = rows if tcp else rdma
    if rows.is_empty():
        return 0, 0.0, "unknown"
    per_host = rows.group_by("host").agg(pl.len(), pl.col("speed_gbit").median()).sort("len", "host")
    layers = set(rows["link_layer"].drop_nulls().to_list())
    kind = "tcp" if tcp else "efa" if any("LIBFABRIC" in n or "OFI" in n for n in used) else "unknown"
    if kind == "unknown":
        kind = {"IB": "ib", "RoCE": "roce"}.get(next(iter(layers)), "unknown") if len(layers) == 1 else "unknown"
    return int(per_host["len"][0]), float(per_host["speed_gbit"][0]), kind


@fact
def efficiency(run: Run) -> pl.DataFrame:
    """The rows of ``benchmarks`` with ``expected_gbps, expected_low_gbps, expected_high_gbps, of_expected,
    expected_from``; null where nothing can be expected. ``of_expected`` is measured over expected.
    """
    rows = run.table("benchmarks")
    # Ranks that share a GPU measure how it is shared, not the links.
    hosts = rows["n_hosts"].set(rows["n_gpus"].fill_null(1 << 30) < rows["nranks"].fill_null(0), _SHARED_GPU)
    # The time is printed with more digits than the bandwidth.
    exact = busbw_expr(pl.col("op"), pl.col("size_bytes"), pl.col("time_us") * 1e3, pl.col("nranks"))
    share = pl.coalesce(exact, "busbw_gbps") / pl.col("expected_gbps")
    return beside(rows, _bands(run, rows, hosts)).with_columns(of_expected=share)


def beside(rows: pl.DataFrame, bands: Iterable[Band | None]) -> pl.DataFrame:
    """The rows with ``expected_gbps, expected_low_gbps, expected_high_gbps, expected_from`` of their bands."""
    told = [(b.busbw_gbps, b.low_gbps, b.high_gbps, b.source) if b is not None else (None,) * 4 for b in bands]
    figures = ("expected_gbps", "expected_low_gbps", "expected_high_gbps")
    schema = {**dict.fromkeys(figures, pl.Float64), "expected_from": pl.String}
    return rows.hstack(pl.DataFrame(told, schema=schema, orient="row"))


def _bands(run: Run, rows: pl.DataFrame, hosts: pl.Series) -> Iterator[Band | None]:
    band = cache(partial(expected, run))
    for what in zip(rows["op"].cast(pl.String), rows["size_bytes"], rows["nranks"], hosts, strict=True):
        yield band(*what) if all(what[:3]) and what[3] != _SHARED_GPU else None
