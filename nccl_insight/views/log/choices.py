"""The choices: channels, algorithms, settings, start-up times, calls, and what the log does not tell."""

from collections.abc import Mapping

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.facts.figures import expected
from nccl_insight.facts.setup.memory import RankMemory, device_memory
from nccl_insight.facts.setup.settings import settings as set_values
from nccl_insight.facts.setup.user_settings import UserSetting, user_settings
from nccl_insight.facts.who.members import main_comm
from nccl_insight.facts.who.transports import pairs
from nccl_insight.tables.run import Run
from nccl_insight.views.place import in_main
from nccl_insight.views.ranks import PHASES

_LOGS = ("processes", "communicators", "ranks", "env", "connections", "errors")
_MODELED = ("AllReduce", "AllGather", "ReduceScatter")
_LIMITING = frozenset({"NCCL_ALGO", "NCCL_PROTO"})


@dataclass(frozen=True)
class Channels:
    """Channels of ranks for collectives, for NVLS, for sends, and for sends per peer."""

    collectives: int
    nvls: int
    p2p: int
    per_peer: int
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Graph:
    """What the topology search found: channels, and bandwidth of each inside and between nodes, GB/s (1e9)."""

    algorithm: str | None
    n_channels: int
    bw_intra_gbps: float | None
    bw_inter_gbps: float | None
    type_intra: str | None
    type_inter: str | None


@dataclass(frozen=True)
class Chosen:
    """An algorithm and protocol that were chosen for calls, and the sizes of these where they are known."""

    op: str | None
    algorithm: str | None
    protocol: str | None
    count: int
    low_bytes: int | None
    high_bytes: int | None


@dataclass(frozen=True)
class Algorithms:
    """Channels and choices. ``milestones``: kinds of connections that were completed. ``nvls``: GPUs that support NVLS,
    and all that say it. ``modeled``: by operation, what NCCL's cost model takes up to which size. ``limits``: settings
    that take other choices away. ``memory``: the process with most GPU memory.
    """

    channels: tuple[Channels, ...]
    milestones: tuple[str, ...]
    nvls: tuple[int, int] | None
    graphs: tuple[Graph, ...]
    one_node: bool
    chosen: tuple[Chosen, ...]
    modeled: tuple[tuple[str, tuple[tuple[int, str, str], ...]], ...]
    limits: tuple[tuple[str, str], ...]
    memory: RankMemory | None


@dataclass(frozen=True)
class Settings:
    """What the user set, of all ``processes`` that have such settings, and what the application did: name, value."""

    user: tuple[UserSetting, ...]
    processes: int
    config: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class StartUp:
    """Communicators of as many ranks: median and longest initialization of a rank in seconds, medians of its phases."""

    nranks: int | None
    communicators: int
    median_s: float
    longest_s: float
    phases: Mapping[str, float]


@dataclass(frozen=True)
class Calls:
    """Calls of one operation of all ranks together."""

    op: str | None
    calls: int
    low_bytes: int
    high_bytes: int


@dataclass(frozen=True)
class Limits:
    """What the log lacks: lines of ranks, and whether it has calls, choices, the topology and transports."""

    missing: tuple[int, ...]
    calls: bool
    choices: bool
    topology: bool
    transports: bool
    unknown_lines: int
    torn_lines: int


def algorithms(run: Run) -> Algorithms:
    """Channels, searched graphs, and the algorithms chosen for calls."""
    world = main_comm(run)
    columns = ["coll_channels", "nvls_channels", "p2p_channels", "p2p_channels_per_peer"]
    counts = in_main(run, run.table("channel_counts"))
    kinds = counts.group_by(columns, maintain_order=True).agg(pl.col("rank"))
    support = run.table("nvls").filter(pl.col("message") == "nvls_support").get_column("nvls_not")
    shape = ["algorithm", "n_channels", "bw_intra_gbps", "bw_inter_gbps", "type_intra", "type_inter"]
    graphs = run.table("graphs").unique(shape, maintain_order=True).select(shape)
    kind = ["op", "algorithm", "protocol"]
    chosen = _sizes(run, "tuning_choice", kind).sort("op", "low", nulls_last=True, maintain_order=True)
    milestones = run.table("connected").get_column("milestone").drop_nulls().unique(maintain_order=True)
    limits = {(s.name, s.value): None for s in user_settings(run) if s.name in _LIMITING}
    return Algorithms(
        channels=tuple(
            Channels(coll or 0, nvls or 0, p2p or 0, peer or 0, tuple(r for r in ranks if r is not None))
            for coll, nvls, p2p, peer, ranks in kinds.iter_rows()
        ),
        milestones=tuple(milestones.to_list()),
        nvls=(support.null_count(), support.len()) if support.len() else None,
        graphs=tuple(Graph(*row) for row in graphs.iter_rows() if row[1]),
        one_node=world is not None and world.single_node,
        chosen=tuple(Chosen(*row) for row in chosen.select(*kind, "n", "low", "high").iter_rows()),
        modeled=_modeled(run),
        limits=tuple(limits),
        memory=next(iter(device_memory(run)), None),
    )


def _modeled(run: Run) -> tuple[tuple[str, tuple[tuple[int, str, str], ...]], ...]:
    world = main_comm(run)
    if world is None or not world.nranks or world.comm_id is None:
        return ()
    spans = {op: expected.choices(run, op, world.nranks, world.comm_id) for op in _MODELED}
    return tuple((op, tuple(span[1:] for span in found)) for op, found in spans.items() if found)


def settings(run: Run) -> Settings:
    """What is set, and by whom."""
    chosen = user_settings(run)
    config = set_values(run).filter(pl.col("origin") == "config")
    config = config.unique(["name", "value"], maintain_order=True).select("name", "value")
    return Settings(chosen, max((s.processes for s in chosen), default=0), tuple(config.iter_rows()))


def start_up(run: Run) -> tuple[StartUp, ...]:
    """Init times by communicator size, the largest first; empty where the log has none."""
    timings = run.table("init_timings").filter(pl.col("total_s").is_not_null())
    sizes = run.table("communicators").select("comm_id", "nranks").unique("comm_id")
    table = timings.drop("nranks", strict=False).join(sizes, on="comm_id", how="left", nulls_equal=True)
    comms, total = pl.col("comm_id").n_unique().alias("comms"), pl.col("total_s")
    took = (total.median().alias("mid"), total.max().alias("most"), *(pl.col(p).median() for p in PHASES))
    grouped = table.group_by("nranks").agg(comms, *took).sort("nranks", descending=True, nulls_last=True)
    return tuple(
        StartUp(row["nranks"], row["comms"], row["mid"], row["most"], {p: row[p] for p in PHASES if row[p] is not None})
        for row in grouped.iter_rows(named=True)
    )


def calls(run: Run) -> tuple[Calls, ...] | None:
    """What was called, the most bytes first; None when the log has no calls."""
    if not run.has("calls"):
        return None
    table = _sizes(run, "calls", ["op"]).with_columns(pl.col("op").cast(pl.String))
    table = table.sort("bytes", "n", "op", descending=[True, True, False], nulls_last=True)
    rows = table.select("op", "n", "low", "high").iter_rows()
    return tuple(Calls(op, n, low or 0, high or 0) for op, n, low, high in rows)


def _sizes(run: Run, name: str, kind: list[str]) -> pl.DataFrame:
    """Rows of a large table by kind: ``n``, and their sizes: ``bytes, low, high``; kinds in order of appearance."""
    size = pl.col("size_bytes")
    parts = [
        frame.group_by(kind, maintain_order=True).agg(n=pl.len(), bytes=size.sum(), low=size.min(), high=size.max())
        for frame in run.pieces(name, *kind, "size_bytes")
    ]
    return (
        pl.concat(parts)
        .group_by(kind, maintain_order=True)
        .agg(pl.col("n", "bytes").sum(), pl.col("low").min(), pl.col("high").max())
    )


def limits(run: Run) -> Limits | None:
    """What the log does not tell, None where there is no log."""
    if not any(run.has(name) for name in _LOGS):
        return None
    world = main_comm(run)
    inputs = run.table("inputs")
    return Limits(
        missing=world.missing if world else (),
        calls=run.has("calls"),
        choices=run.has("tuning_choice"),
        topology=run.has("graphs") or run.has("topology_links"),
        transports=not pairs(run).is_empty(),
        unknown_lines=int(inputs.get_column("unknown_lines").fill_null(0).sum()),
        torn_lines=int(inputs.get_column("torn_lines").fill_null(0).sum()),
    )
