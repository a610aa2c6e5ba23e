"""Rings of the largest communicator as the nodes see them."""

from collections import Counter, defaultdict
from collections.abc import Mapping

import polars as pl

from nccl_insight.base.data import dataclass, replace
from nccl_insight.facts.fabric.networks import nics
from nccl_insight.facts.who.transports import net_links
from nccl_insight.tables.run import Run
from nccl_insight.views.place import Place, in_main, place, rank_pairs

_Ways = Mapping[tuple[int, int, int], str]


@dataclass(frozen=True)
class Visit:
    """The part of a ring on one node: its host (None where unknown), ranks, their numbers on it, NIC of the way out."""

    node: int
    host: str | None
    ranks: tuple[int, ...]
    local: tuple[int, ...]
    nic: str


@dataclass(frozen=True)
class Ring:
    """One ring: its ranks in order, of ``nranks``; ``cut`` where the line of the log ends before the order does.

    ``kinds``: hops by the kind of their transport, the most frequent first.
    """

    channel: int
    order: tuple[int, ...]
    nranks: int
    kinds: tuple[tuple[str, int], ...] = ()
    visits: tuple[Visit, ...] = ()
    cut: bool = False

    @property
    def whole(self) -> bool:
        """Whether the order of all ranks is known."""
        return not self.cut and len(self.order) >= self.nranks

    @property
    def crossings(self) -> int | None:
        """How often the known part goes from node to node; None where the node of a rank is not known."""
        if any(visit.host is None for visit in self.visits):
            return None
        return len(self.visits) if self.whole and len(self.visits) > 1 else max(0, len(self.visits) - 1)

    def hops(self) -> list[tuple[int, int]]:
        """Pairs of neighbors; the way back to the first rank only where the order is whole."""
        pairs = list(zip(self.order, self.order[1:], strict=False))
        return [*pairs, (self.order[-1], self.order[0])] if self.whole and len(self.order) > 1 else pairs


@dataclass(frozen=True)
class Rings:
    """All rings by channel, and in classes of those that pass the nodes alike; ``nodes``: how many are known."""

    rings: tuple[Ring, ...]
    classes: tuple[tuple[Ring, ...], ...]
    nodes: int


def rings(run: Run) -> Rings | None:
    """The rings, None where the log has none."""
    where, ways = place(run), _nics(run)
    kinds = {(p.src, p.dst): p.kind for p in rank_pairs(run)}
    classes: dict[tuple[object, ...], list[Ring]] = defaultdict(list)
    found = []
    for ring in ring_orders(run):
        visits = _visits(ring, where, ways)
        used = Counter(kinds[hop] for hop in ring.hops() if hop in kinds).most_common()
        found.append(replace(ring, kinds=tuple(used), visits=visits))
        key = (ring.whole, *((v.node, v.ranks, v.nic) for v in visits))
        classes[key].append(found[-1])
    if not found:
        return None
    return Rings(tuple(found), tuple(map(tuple, classes.values())), len(where.hosts) if where else 0)


def ring_orders(run: Run) -> list[Ring]:
    """Rings by channel: printed orders, or what each rank printed of its neighbors."""
    table = in_main(run, run.table("rings")).drop_nulls(["channel", "position", "rank"])
    sizes = in_main(run, run.table("communicators"))["nranks"].drop_nulls()
    neighbors: dict[int, dict[int, int]] = defaultdict(dict)
    rows = in_main(run, run.table("ring_neighbours")).drop_nulls(["channel", "rank", "next_rank"])
    for channel, rank, after in rows.select("channel", "rank", "next_rank").iter_rows():
        neighbors[channel].setdefault(rank, after)
    orders: dict[int, list[int]] = {}
    places = table.unique(["channel", "position"], keep="first").sort("channel", "position")
    for (channel,), part in places.group_by("channel", maintain_order=True):
        orders[int(str(channel))] = part["rank"].to_list()
    cut = set(table.filter(pl.col("truncated").fill_null(False))["channel"])
    for channel, after in neighbors.items():
        if channel not in orders or channel in cut:
            walked = _walk(after)
            if len(walked) > len(orders.get(channel, [])):
                orders[channel] = walked
                cut.discard(channel)
    known = max(map(len, orders.values()), default=0)
    nranks = int(str(sizes.max())) if sizes.len() else known
    return [
        Ring(channel, tuple(order), max(nranks, len(order)), cut=channel in cut)
        for channel, order in sorted(orders.items())
        if order
    ]


def _walk(after: Mapping[int, int]) -> list[int]:
    """The order from the lowest rank on, until it comes back or nobody printed the next rank."""
    order = [min(after)]
    while (following := after.get(order[-1])) is not None and following not in order:
        order.append(following)
    return order


def _nics(run: Run) -> _Ways:
    """Name of the NIC that a channel leaves a node by: ``(channel, from, to)``."""
    listed = nics(run).filter(pl.col("index").is_not_null()).select("host", "index", "name")
    names = {(host, index): str(name) for host, index, name in listed.iter_rows()}
    rows = net_links(run).filter((pl.col("direction") == "send") & pl.col("net_dev").is_not_null())
    columns = ("channel", "src_rank", "dst_rank", "local_host", "net_dev")
    return {(c, s, d): names.get((h, n), f"NIC {n}") for c, s, d, h, n in rows.select(columns).iter_rows()}


def _visits(ring: Ring, where: Place | None, ways: _Ways) -> tuple[Visit, ...]:
    node_of = where.node_of if where else {}
    order = list(ring.order)
    if ring.whole and where:
        # Begin where the ring enters a node, so that no node is seen twice for where the log happens to begin.
        entry = next((n for n in range(len(order)) if node_of.get(order[n - 1]) != node_of.get(order[n])), 0)
        order = order[entry:] + order[:entry]
    parts: list[list[int]] = []
    for rank in order:
        if parts and node_of.get(parts[-1][-1]) == node_of.get(rank):
            parts[-1].append(rank)
        else:
            parts.append([rank])
    visits = []
    for n, ranks in enumerate(parts):
        node = node_of.get(ranks[0], -1)
        members = where.ranks_of[node] if where and node >= 0 else ()
        local = tuple(members.index(r) if r in members else r for r in ranks)
        last = n == len(parts) - 1
        following = None if last and not ring.whole else parts[(n + 1) % len(parts)][0]
        nic = ways.get((ring.channel, ranks[-1], following), "") if following is not None else ""
        host = where.hosts[node] if where and node >= 0 else None
        visits.append(Visit(node, host, tuple(ranks), local, nic))
    return tuple(visits)
