"""Explains the ways: who talks to whom over what, NICs, rings and trees."""

from collections.abc import Iterator

from nccl_insight.base.grouping import grouped
from nccl_insight.base.units import format_ranks, listed, plural, rank_words
from nccl_insight.report.prose import capped, chain, safe
from nccl_insight.report.words import crossed
from nccl_insight.views.log.paths import Network, Nic, Transports, Trees, Way
from nccl_insight.views.rings import Rings

_RANKS_SHOWN = 16
_ORDERS = 4


def transports(view: Transports | None) -> Iterator[str]:
    """Pairs of ranks by transport, then what each rank sends to."""
    if view is None:
        yield "The log has no connection lines. NCCL prints them when a collective first needs them; NVLS needs none."
        return
    names = {True: "inside a host", False: "between hosts", None: "between ranks of unknown hosts"}
    for kind in view.kinds:
        over = f"{plural(kind.pairs, 'pair')} over {safe(_way(kind.way))}"
        yield f"- {names[kind.inside]}: {over}, up to {plural(kind.channels, 'channel')} per pair"
    if not view.ranks:
        return
    yield "Rank by rank, in the largest communicator:" if view.of_largest else "Rank by rank:"
    rows = []
    for rank in view.ranks:
        ways = "; to ".join(f"{format_ranks(targets)} over {safe(_way(way))}" for way, targets in rank.ways)
        rows.append(f"  rank {rank.rank}{f' ({safe(rank.host)})' if rank.host else ''} sends to {ways}")
    yield from capped(rows, _RANKS_SHOWN, "ranks")


def _way(way: Way) -> str:
    if way.transport == "NET":
        return f"the network {way.by}" + (" with GPUDirect RDMA" if way.direct else "")
    if way.transport is None:
        return "?"
    return f"{way.transport} ({way.by})" if way.by else way.transport


def network(view: Network) -> Iterator[str]:
    """The network in use and the NICs of the hosts."""
    if view.used:
        alone = " (on one node it only serves the start-up)" if view.one_node else ""
        yield f"Network in use: {listed([safe(n) for n in view.used])}{alone}."
    if not view.hosts and not view.used:
        yield "The log names neither a network nor NICs."
    lines = []
    for kind in view.hosts:
        on = listed([safe(h) for h in kind.hosts])
        of = f" for {safe(kind.network)}" if kind.network else ""
        found = listed([safe(_nic(nic)) for nic in kind.nics], 10)
        lines.append(f"- {on}: {plural(len(kind.nics), 'device')}{of}: {found}")
    yield from capped(lines, 12, "kinds of hosts")
    external = [safe(n) for n in view.plugins if n not in {"IB", "Socket"}]
    if external:
        yield f"Plugins in use: {listed(external, 8)}."


def _nic(nic: Nic) -> str:
    port = f":{nic.port}" if nic.port is not None else ""
    layer = f"/{nic.link_layer}" if nic.link_layer else ""
    return nic.name + port + layer + (f" {nic.speed_gbit} Gb/s" if nic.speed_gbit else "")


def rings_and_trees(rings: Rings | None, trees: Trees | None) -> Iterator[str]:
    """Orders of the rings and shape of the trees of the largest communicator."""
    yield from _rings(rings)
    yield from _trees(trees)


def _rings(view: Rings | None) -> Iterator[str]:
    if view is None:
        yield "The log has no ring lines (NCCL_DEBUG_SUBSYS with INIT or GRAPH)."
        return
    orders = grouped(((ring.order, ring.whole), ring.channel) for ring in view.rings)
    same = "in one order" if len(orders) == 1 else f"in {len(orders)} different orders"
    yield f"{plural(len(view.rings), 'ring')}, {same}."
    lines = [
        f"- channel{'s' if len(channels) > 1 else ''} {format_ranks(channels)}: {chain(order)}"
        + ("" if whole else " (cut short in the log)")
        for (order, whole), channels in orders.items()
    ]
    yield from capped(lines, _ORDERS, "orders")
    crossings = [r.crossings for r in view.rings if r.whole and r.crossings is not None]
    if crossings and view.nodes > 1:
        low, high = min(crossings), max(crossings)
        yield f"Each ring crosses from host to host {crossed(low, high, view.nodes, 'hosts')}."


def _trees(view: Trees | None) -> Iterator[str]:
    if view is None:
        return
    tops = rank_words(view.roots) if view.roots else "not in the log"
    widest = plural(view.children, "child", "children")
    yield f"{plural(view.trees, 'tree')}; roots: {tops}; at most {widest} per rank."
