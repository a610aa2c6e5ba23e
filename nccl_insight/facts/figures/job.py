"""What a run is like, as named facts that two runs can be compared by."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Ref
from nccl_insight.base.units import format_bytes, plural
from nccl_insight.base.words import words
from nccl_insight.facts.fabric.networks import nics, process_networks
from nccl_insight.facts.fabric.paths import gpu_paths, nvlink_per_gpu
from nccl_insight.facts.fabric.traffic import ring_crossings
from nccl_insight.facts.setup.settings import refs, settings
from nccl_insight.facts.who.members import comms, main_comm, members, processes
from nccl_insight.facts.who.transports import pairs
from nccl_insight.tables.run import Run, fact

AREAS: Final = words("""versions environment networks topology shape transports channels algorithms calls timings
    bandwidth""")
_QUIET_SETTINGS: Final = words("""NCCL_DEBUG NCCL_DEBUG_FILE NCCL_DEBUG_SUBSYS NCCL_TOPO_DUMP_FILE NCCL_GRAPH_DUMP_FILE
    NCCL_COMM_ID NCCL_HOSTID""")
_SIZES: Final = (1 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20)


@dataclass(frozen=True)
class Fact:
    """One thing that can be compared. Equal ``key`` means no change; ``number`` where it is a measurement.

    ``text`` is what a reader sees, ``hosts`` are those that differ from the majority within the run.
    """

    area: str
    subject: str
    key: tuple[Any, ...]
    text: str
    number: float | None = None
    unit: str = ""
    hosts: tuple[str, ...] = ()
    evidence: tuple[Ref, ...] = ()


@fact
def facts(run: Run) -> dict[tuple[str, str], Fact]:
    """All facts of a run by (area, subject), in the order of :data:`AREAS`."""
    builders: tuple[Callable[[Run], Iterator[Fact]], ...] = (
        _versions, _environment, _networks, _topology, _shape, _transports, _channels, _algorithms, _calls, _timings,
        _bandwidth,
    )  # fmt: skip
    return {(f.area, f.subject): f for build in builders for f in build(run)}


def _spread(area: str, subject: str, frame: pl.DataFrame, value: str, unit: str = "host") -> Iterator[Fact]:
    """A fact of rows that should agree: the distinct values, the majority first, minority hosts named."""
    known = frame.filter(pl.col(value).is_not_null()).with_columns(pl.col(value).cast(pl.String).alias("_v"))
    if known.is_empty():
        return
    votes = known.group_by("_v", maintain_order=True).agg(n=pl.len(), hosts=pl.col("host").drop_nulls().unique().sort())
    votes = votes.sort("n", "_v", descending=[True, False])
    values = votes.get_column("_v").to_list()
    if len(values) == 1:
        text, odd = values[0], ()
    else:
        shown = [
            f"{v} ({plural(n, unit, 'processes' if unit == 'process' else None)})"
            for v, n in votes.select("_v", "n").head(4).rows()
        ]
        text = ", ".join(shown) + (f" and {len(values) - 4} more values" if len(values) > 4 else "")
        usual = set(votes.row(0, named=True)["hosts"])
        odd = tuple(sorted({h for row in votes.get_column("hosts").to_list()[1:] for h in row} - usual))
    first = known.unique("_v", keep="first", maintain_order=True)
    yield Fact(area, subject, tuple(sorted(values)), text, hosts=odd, evidence=refs(first))


def _versions(run: Run) -> Iterator[Fact]:
    table = run.table("processes").with_columns(pl.col("driver_version", "library").cast(pl.String))
    for subject, column in (
        ("NCCL", "nccl_version"),
        ("CUDA toolkit", "cuda_version"),
        ("CUDA driver", "driver_version"),
    ):
        yield from _spread("versions", subject, table, column, "process")
    stated = table.filter(pl.col("nccl_version").is_not_null())
    yield from _spread("versions", "library", stated, "library", "process")


def _environment(run: Run) -> Iterator[Fact]:
    values = settings(run).filter(~pl.col("name").is_in(_QUIET_SETTINGS) & (pl.col("origin") != "config"))
    for (name,), rows in values.group_by("name", maintain_order=True):
        yield from _spread("environment", str(name), rows, "value", "process")


def _networks(run: Run) -> Iterator[Fact]:
    yield from _spread("networks", "network", process_networks(run), "network", "process")
    listed = nics(run).filter(pl.col("name").is_not_null())
    per_host = listed.group_by("host", "network", maintain_order=True).agg(
        pl.struct("name", "port").n_unique().alias("count"),
        pl.col("link_layer").drop_nulls().unique().sort().str.join("+").alias("layers"),
        pl.col("name").unique().sort().str.join(",").alias("names"),
        pl.col("input_id", "line").first(),
    )
    for (network,), rows in per_host.group_by("network", maintain_order=True):
        yield from _spread("networks", f"{network} NICs per host", rows, "count")
        yield from _spread("networks", f"{network} NIC names", rows, "names")
        yield from _spread("networks", f"{network} link layers", rows.filter(pl.col("layers") != ""), "layers")


def _topology(run: Run) -> Iterator[Fact]:
    gpus = nvlink_per_gpu(run).with_columns(
        pl.col("bw_gbps").round(0).cast(pl.Int64, strict=False).cast(pl.String) + " GB/s"
    )
    yield from _spread("topology", "NVLink a GPU", gpus, "bw_gbps", "GPU")
    kinds = (
        gpu_paths(run)
        .group_by("host", maintain_order=True)
        .agg(pl.col("path").unique().sort().str.join("+"), pl.col("input_id", "line").first())
    )
    yield from _spread("topology", "paths between GPUs", kinds, "path")
    graphs = run.table("graphs").filter(pl.col("n_channels") > 0)
    graphs = graphs.with_columns(
        host=pl.lit(None, dtype=pl.String), types=pl.format("{}/{}", "type_intra", "type_inter")
    )
    for (pattern,), rows in graphs.group_by("pattern", maintain_order=True):
        name = {4: "ring", 1: "tree", 3: "tree", 5: "NVLS"}.get(pattern, f"pattern {pattern}")
        yield from _spread("topology", f"{name} graph, path types", rows, "types", "rank")
        yield from _spread("topology", f"{name} graph, GB/s inside a node", rows, "bw_intra_gbps", "rank")
        yield from _spread("topology", f"{name} graph, GB/s between nodes", rows, "bw_inter_gbps", "rank")


def _shape(run: Run) -> Iterator[Fact]:
    main = main_comm(run)
    if main is None:
        return
    evidence = (Ref(main.input_id, main.line),) if main.line else ()
    for subject, value in (("ranks", main.nranks), ("nodes", main.nodes), ("hosts", len(main.hosts) or None)):
        if value:
            yield Fact("shape", subject, (value,), str(value), evidence=evidence)
    sizes = sorted({c.nranks for c in comms(run)}, reverse=True)
    yield Fact("shape", "sizes of communicators", tuple(sizes), ", ".join(map(str, sizes[:8])))
    done = sum(c.init_complete for c in comms(run))
    share = "all" if done == len(comms(run)) else "none" if done == 0 else "some"
    yield Fact("shape", "communicators initialized", (share,), f"{done} of {len(comms(run))}", evidence=evidence)


def _transports(run: Run) -> Iterator[Fact]:
    table = pairs(run).with_columns(
        reach=pl.when(pl.col("same_host").fill_null(pl.col("transport") != "NET"))
        .then(pl.lit("inside a node"))
        .otherwise(pl.lit("between nodes")),
        kind=pl.when(pl.col("transport") == "NET")
        .then(
            pl.format(
                "{}{}", "network", pl.when("gdr").then(pl.lit(" with GDRDMA")).otherwise(pl.lit(" without GDRDMA"))
            )
        )
        .when(pl.col("method").is_not_null() & (pl.col("transport") == "P2P"))
        .then(pl.format("P2P/{}", "method"))
        .otherwise("transport")
        .str.replace("Socket without GDRDMA", "Socket", literal=True),
        host=pl.col("src_host"),
    )
    for (reach,), rows in table.group_by("reach", maintain_order=True):
        yield from _spread("transports", str(reach), rows, "kind", "pair")


def _channels(run: Run) -> Iterator[Fact]:
    counts = run.table("channel_counts").join(
        members(run).select("comm_id", "rank", "host").unique(["comm_id", "rank"], keep="first"),
        on=["comm_id", "rank"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    main = main_comm(run)
    if main is not None:
        counts = counts.filter(pl.col("comm_id").eq_missing(pl.lit(main.comm_id, dtype=pl.String)))
    for subject, column in (
        ("collective channels", "coll_channels"),
        ("NVLS channels", "nvls_channels"),
        ("point-to-point channels", "p2p_channels"),
    ):
        yield from _spread("channels", subject, counts, column, "rank")
    rings = ring_crossings(run).with_columns(
        host=pl.lit(None, dtype=pl.String), crossings_text=pl.format("{} crossings for {} hosts", "crossings", "hosts")
    )
    yield from _spread("channels", "node crossings of a ring", rings, "crossings_text", "ring")


def _size_class(column: str) -> pl.Expr:
    names = [f"up to {format_bytes(s)}" for s in _SIZES]
    expression = pl.lit(f"above {format_bytes(_SIZES[-1])}")
    for limit, name in reversed(list(zip(_SIZES, names, strict=True))):
        expression = pl.when(pl.col(column) <= limit).then(pl.lit(name)).otherwise(expression)
    return expression


def _algorithms(run: Run) -> Iterator[Fact]:
    table = run.table("tuning_choice").filter(pl.col("algorithm").is_not_null())
    table = table.with_columns(
        what=pl.format("{} of {}", pl.col("op").cast(pl.String).fill_null("collectives"), _size_class("size_bytes")),
        choice=pl.format("{}/{}", pl.col("algorithm").str.to_uppercase(), pl.col("protocol").str.to_uppercase()),
    )
    for (what,), rows in table.group_by("what", maintain_order=True):
        yield from _spread("algorithms", str(what), rows, "choice", "call")


def _calls(run: Run) -> Iterator[Fact]:
    table = run.table("calls").filter(pl.col("op").is_not_null())
    processes_ = max(1, table.select("host", "pid").n_unique())
    per_op = table.group_by(pl.col("op").cast(pl.String), maintain_order=True).agg(
        pl.len().alias("n"), pl.col("size_bytes").median(), pl.col("input_id", "line").first()
    )
    for row in per_op.iter_rows(named=True):
        each = row["n"] / processes_
        yield Fact(
            "calls",
            f"{row['op']} calls per process",
            (round(each, 1),),
            f"{each:.1f}",
            number=each,
            evidence=(Ref(row["input_id"], row["line"]),) if row["line"] else (),
        )
        if row["size_bytes"] is not None:
            size = float(row["size_bytes"])
            yield Fact("calls", f"{row['op']} median size", (size,), format_bytes(size), number=size, unit="B")


def _timings(run: Run) -> Iterator[Fact]:
    table = run.table("init_timings")
    for column in table.columns:
        if not column.endswith("_s"):
            continue
        worst = table.filter(pl.col(column).is_not_null()).sort(column, descending=True, maintain_order=True)
        if worst.height:
            value = float(worst.item(0, column))
            word = column.removesuffix("_s")
            yield Fact(
                "timings", f"init {word}, slowest rank", (value,), f"{value:.2f} s", value, "s", (), refs(worst, 1)
            )
    steps = run.table("steps")
    for column, subject in (
        ("duration_ns", "step"),
        ("compute_ns", "computation of a step"),
        ("comm_ns", "communication of a step"),
        ("exposed_comm_ns", "exposed communication of a step"),
        ("idle_ns", "idle time of a step"),
    ):
        value_ns = steps.get_column(column).median() if steps.height else None
        if isinstance(value_ns, (int, float)):
            yield Fact("timings", subject, (value_ns,), f"{value_ns / 1e6:.2f} ms", value_ns / 1e6, "ms")


def _bandwidth(run: Run) -> Iterator[Fact]:
    bench = run.table("benchmarks").filter(pl.col("busbw_gbps").is_not_null() & (pl.col("busbw_gbps") > 0))
    traced = run.table("collectives").filter(pl.col("busbw_gbps").is_not_null() & (pl.col("busbw_gbps") > 0))
    for source, table in (("benchmark", bench), ("job", traced)):
        shown = table.select(
            pl.format(
                "{} of {}", pl.col("op").cast(pl.String).fill_null("collectives"), _size_class("size_bytes")
            ).alias("what"),
            "busbw_gbps",
        )
        medians = shown.group_by("what", maintain_order=True).agg(pl.col("busbw_gbps").median())
        for what, value in medians.iter_rows():
            yield Fact("bandwidth", f"busbw of the {source}, {what}", (value,), f"{value:.2f} GB/s", value, "GB/s")


def knows(run: Run, area: str) -> bool:
    """Whether a run can say anything about an area; a run with init lines shows settings even if there are none."""
    if any(a == area for a, _ in facts(run)):
        return True
    return area == "environment" and (run.has("ranks") or processes(run).height > 0)
