"""Who talks to whom over what: NICs, transports and trees."""

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.grouping import grouped
from nccl_insight.facts.fabric.networks import networks_in_use, nics
from nccl_insight.facts.who.members import main_comm
from nccl_insight.facts.who.transports import pairs
from nccl_insight.tables.run import Run
from nccl_insight.views.place import in_main

_WAY = ("transport", "by", "direct")


@dataclass(frozen=True)
class Way:
    """A transport; ``by``: the network of NET, else the method, empty where unknown. ``direct``: GPUDirect RDMA."""

    transport: str | None
    by: str
    direct: bool


@dataclass(frozen=True)
class Kind:
    """Pairs of ranks over one way, ``inside`` a host (None: unknown), and the most channels of a pair."""

    inside: bool | None
    way: Way
    pairs: int
    channels: int


@dataclass(frozen=True)
class Sends:
    """What a rank sends to, by way."""

    rank: int
    host: str | None
    ways: tuple[tuple[Way, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Transports:
    """All connections by kind; ``ranks``: of the largest communicator, of the first where none is known."""

    kinds: tuple[Kind, ...]
    ranks: tuple[Sends, ...]
    of_largest: bool


@dataclass(frozen=True)
class Nic:
    """A NIC; ``link_layer`` is ``IB``, ``RoCE`` or None."""

    name: str
    port: int | None
    link_layer: str | None
    speed_gbit: int | None


@dataclass(frozen=True)
class HostNics:
    """Hosts with the same NICs."""

    network: str | None
    hosts: tuple[str | None, ...]
    nics: tuple[Nic, ...]


@dataclass(frozen=True)
class Network:
    """Networks in use, the most frequent first, NICs by hosts, and plugins that were loaded."""

    used: tuple[str, ...]
    one_node: bool
    hosts: tuple[HostNics, ...]
    plugins: tuple[str, ...]


@dataclass(frozen=True)
class Trees:
    """Number of trees, their roots, and the most children of a rank."""

    trees: int
    roots: tuple[int, ...]
    children: int


def transports(run: Run) -> Transports | None:
    """Pairs by transport, then what each rank sends to; None without connections."""
    net = pl.col("transport") == "NET"
    by = pl.when(net).then("network").when(pl.col("transport").is_not_null()).then("method").fill_null("")
    table = pairs(run).with_columns(by.alias("by"), (net & pl.col("gdr")).fill_null(False).alias("direct"))
    if table.is_empty():
        return None
    kinds = (
        table.group_by(pl.col("same_host").alias("inside"), *_WAY, maintain_order=True)
        .agg(pl.struct("comm_id", "src_rank", "dst_rank").n_unique().alias("pairs"), pl.col("n_channels").max())
        .sort("inside", "pairs", descending=[True, True], nulls_last=True, maintain_order=True)
    )
    world = main_comm(run)
    comm_id = world.comm_id if world else table.get_column("comm_id")[0]
    sends = (
        table.filter(pl.col("comm_id").eq_missing(pl.lit(comm_id)))
        .group_by("src_rank", *_WAY, maintain_order=True)
        .agg(pl.col("dst_rank").unique().sort(), pl.col("src_host").first())
        .sort("src_rank", maintain_order=True)
    )
    ranks: dict[int, list[tuple[Way, tuple[int, ...]]]] = {}
    hosts: dict[int, str | None] = {}
    for rank, transport, name, direct, targets, host in sends.iter_rows():
        ranks.setdefault(rank, []).append((Way(transport, name, direct), tuple(targets)))
        hosts[rank] = hosts.get(rank) or host
    return Transports(
        tuple(Kind(inside, Way(*way), n, channels) for inside, *way, n, channels in kinds.iter_rows()),
        tuple(Sends(rank, hosts[rank], tuple(found)) for rank, found in ranks.items()),
        world is not None,
    )


def network(run: Run) -> Network:
    """The network in use and the NICs of the hosts."""
    world = main_comm(run)
    columns = ("host", "network", "name", "port", "link_layer", "speed_gbit")
    by_host = grouped(
        ((host, used), Nic(name, port, layer if layer in ("IB", "RoCE") else None, speed if (speed or 0) > 0 else None))
        for host, used, name, port, layer, speed in nics(run).select(columns).iter_rows()
    )
    alike = grouped(((used, tuple(found)), host) for (host, used), found in by_host.items())
    loaded = run.table("plugins").filter(pl.col("outcome").cast(pl.String) == "loaded")
    plugins = loaded.select(pl.coalesce("name", "plugin").alias("n")).get_column("n")
    return Network(
        used=networks_in_use(run),
        one_node=world is not None and world.single_node,
        hosts=tuple(HostNics(used, tuple(hosts), found) for (used, found), hosts in alike.items()),
        plugins=tuple(plugins.drop_nulls().unique(maintain_order=True).to_list()),
    )


def trees(run: Run) -> Trees | None:
    """Shape of the trees of the largest communicator, None where the log has none."""
    found = in_main(run, run.table("trees"))
    if found.is_empty():
        return None
    found = found.unique(["channel", "tree", "rank"], keep="first", maintain_order=True)
    roots = found.filter(pl.col("parent_rank").is_null()).get_column("rank").drop_nulls().unique().sort()
    return Trees(
        trees=found.select("channel", "tree").n_unique(),
        roots=tuple(roots.to_list()),
        children=max(found.get_column("child_ranks").list.len().drop_nulls().to_list(), default=0),
    )
