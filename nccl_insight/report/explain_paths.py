"""Explains the ways: who talks to whom over what, NICs, rings and trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from nccl_insight.facts.members import main_comm
from nccl_insight.facts.networks import networks_in_use, nics
from nccl_insight.facts.traffic import ring_crossings, ring_hops
from nccl_insight.facts.transports import pairs
from nccl_insight.report.prose import Section, capped, chain, listed, safe, section
from nccl_insight.tables.run import Run
from nccl_insight.units import format_ranks, plural

_RANKS_SHOWN = 16
_ORDERS = 4


def transports(run: Run) -> Section:
    """Pairs of ranks by transport, then what each rank sends to."""
    return section("Who talks to whom over what", _transports(run))


def _transports(run: Run) -> Iterator[str]:
    table = pairs(run)
    if table.is_empty():
        yield "The log has no connection lines. NCCL prints them when a collective first needs them; NVLS needs none."
        return
    way = _way()
    kinds = (
        table.with_columns(way, pl.col("same_host").alias("inside"))
        .group_by("inside", "way", maintain_order=True)
        .agg(
            pl.struct("comm_id", "src_rank", "dst_rank").n_unique().alias("pairs"), pl.col("n_channels").max()
        )
        .sort("inside", "pairs", descending=[True, True], nulls_last=True)
    )
    names = {True: "inside a host", False: "between hosts", None: "between ranks of unknown hosts"}
    for inside, name, count, channels in kinds.iter_rows():
        over = f"{plural(count, 'pair')} over {safe(name)}"
        yield f"- {names[inside]}: {over}, up to {plural(channels, 'channel')} a pair"
    world = main_comm(run)
    comm_id = world.comm_id if world else table.get_column("comm_id")[0]
    own = table.with_columns(way).filter(pl.col("comm_id").eq_missing(pl.lit(comm_id)))
    if own.is_empty():
        return
    yield "Rank by rank, in the largest communicator:" if world else "Rank by rank:"
    sends = (
        own.group_by("src_rank", "way", maintain_order=True)
        .agg(pl.col("dst_rank").unique().sort(), pl.col("src_host").first())
        .sort("src_rank", maintain_order=True)
    )
    lines: dict[int, list[str]] = {}
    hosts: dict[int, str | None] = {}
    for rank, name, targets, host in sends.iter_rows():
        lines.setdefault(rank, []).append(f"{format_ranks(targets)} over {safe(name)}")
        hosts[rank] = hosts.get(rank) or host
    rows = [
        f"  rank {rank}{f' ({safe(hosts[rank])})' if hosts[rank] else ''} sends to {'; to '.join(found)}"
        for rank, found in lines.items()
    ]
    yield from capped(rows, _RANKS_SHOWN, "ranks")


def _way() -> pl.Expr:
    network = pl.col("network").fill_null("")
    method = pl.col("method").fill_null("")
    direct = pl.when(pl.col("gdr")).then(pl.lit(" with GPUDirect RDMA")).otherwise(pl.lit(""))
    net = pl.concat_str(pl.lit("the network "), network, direct)
    other = (
        pl.when(method != "")
        .then(pl.concat_str("transport", pl.lit(" ("), method, pl.lit(")")))
        .otherwise("transport")
    )
    return pl.when(pl.col("transport") == "NET").then(net).otherwise(other).fill_null("?").alias("way")


def network(run: Run) -> Section:
    """The network in use and the NICs of the hosts."""
    return section("Network", _network(run))


def _network(run: Run) -> Iterator[str]:
    used = networks_in_use(run)
    if used:
        world = main_comm(run)
        alone = (
            " (on one node it only serves the start-up)" if world is not None and world.single_node else ""
        )
        yield f"Network in use: {listed([safe(n) for n in used])}{alone}."
    table = nics(run)
    if table.is_empty() and not used:
        yield "The log names neither a network nor NICs."
    speed = pl.when(pl.col("speed_gbit") > 0).then(pl.format(" {} Gb/s", "speed_gbit")).otherwise(pl.lit(""))
    port = pl.when(pl.col("port").is_not_null()).then(pl.format(":{}", "port")).otherwise(pl.lit(""))
    layer = (
        pl.when(pl.col("link_layer").is_in(["IB", "RoCE"]))
        .then(pl.format("/{}", "link_layer"))
        .otherwise(pl.lit(""))
    )
    rows = (
        table.with_columns(pl.concat_str("name", port, layer, speed).alias("nic"))
        .group_by("host", "network", maintain_order=True)
        .agg(pl.col("nic"))
        .with_columns(pl.col("nic").list.join(", ").alias("all"))
        .group_by("network", "all", maintain_order=True)
        .agg(pl.col("host"), pl.col("nic").first())
    )
    lines = []
    for name, _, hosts, found in rows.iter_rows():
        on = listed([safe(h) for h in hosts])
        of = f" for {safe(name)}" if name else ""
        lines.append(f"- {on}: {plural(len(found), 'device')}{of}: {listed([safe(n) for n in found], 10)}")
    yield from capped(lines, 12, "kinds of hosts")
    loaded = run.table("plugins").filter(pl.col("outcome").cast(pl.String) == "loaded")
    names = (
        loaded.select(pl.coalesce("name", "plugin").alias("n"))
        .get_column("n")
        .drop_nulls()
        .unique(maintain_order=True)
    )
    external = [safe(n) for n in names.to_list() if str(n) not in {"IB", "Socket"}]
    if external:
        yield f"Plugins in use: {listed(external, 8)}."


def rings_and_trees(run: Run) -> Section:
    """Orders of the rings and shape of the trees of the largest communicator."""
    return section("Rings and trees", [*_rings(run), *_trees(run)])


def _rings(run: Run) -> Iterator[str]:
    world = main_comm(run)
    rings = run.table("rings").filter(pl.col("comm_id").is_not_null())
    hops = ring_hops(run)
    if world is not None:
        rings, hops = (f.filter(pl.col("comm_id").eq_missing(pl.lit(world.comm_id))) for f in (rings, hops))
    if rings.is_empty() and hops.is_empty():
        yield "The log has no ring lines (NCCL_DEBUG_SUBSYS with INIT or GRAPH)."
        return
    orders = (
        rings.unique(["channel", "position"], keep="first", maintain_order=True)
        .sort("channel", "position")
        .group_by("channel", maintain_order=True)
        .agg(pl.col("rank"), pl.col("truncated").fill_null(False).any())
        .group_by("rank", "truncated", maintain_order=True)
        .agg(pl.col("channel"))
    )
    channels = rings.get_column("channel").n_unique() or hops.get_column("channel").n_unique()
    same = "in one order" if orders.height == 1 else f"in {orders.height} different orders"
    yield f"{plural(channels, 'ring')}, {same}."
    lines = []
    for ranks, truncated, used in orders.iter_rows():
        cut = " (cut short in the log)" if truncated else ""
        lines.append(f"- {_channels(used)}: {chain(ranks)}{cut}")
    yield from capped(lines, _ORDERS, "orders")
    crossings = ring_crossings(run)
    if world is not None:
        crossings = crossings.filter(pl.col("comm_id").eq_missing(pl.lit(world.comm_id)))
    if crossings.height and len(world.hosts if world else ()) > 1:
        times = sorted(crossings.get_column("crossings").to_list())
        span = f"{times[0]}" if times[0] == times[-1] else f"{times[0]} to {times[-1]}"
        hosts = max(crossings.get_column("hosts").to_list())
        yield f"Each ring crosses from host to host {span} times; {hosts} times is the least for {hosts} hosts."


def _channels(channels: Sequence[int]) -> str:
    return f"{'channel' if len(channels) == 1 else 'channels'} {format_ranks(channels)}"


def _trees(run: Run) -> Iterator[str]:
    world = main_comm(run)
    trees = run.table("trees")
    if world is not None:
        trees = trees.filter(pl.col("comm_id").eq_missing(pl.lit(world.comm_id)))
    if trees.is_empty():
        return
    trees = trees.unique(["channel", "tree", "rank"], keep="first", maintain_order=True)
    roots = (
        trees.filter(pl.col("parent_rank").is_null())
        .get_column("rank")
        .drop_nulls()
        .unique()
        .sort()
        .to_list()
    )
    widest = max(trees.get_column("child_ranks").list.len().drop_nulls().to_list(), default=0)
    count = trees.select("channel", "tree").n_unique()
    tops = f"{'rank' if len(roots) == 1 else 'ranks'} {format_ranks(roots)}" if roots else "not in the log"
    yield f"{plural(count, 'tree')}; roots: {tops}; at most {plural(widest, 'child', 'children')} a rank."
