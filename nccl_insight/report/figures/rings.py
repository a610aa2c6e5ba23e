"""Rings as the nodes see them: where each enters and leaves a node, by which GPU and NIC; alike channels folded."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from nccl_insight.facts.networks import nics
from nccl_insight.facts.transports import net_links
from nccl_insight.model import Analysis
from nccl_insight.report.figures import svg
from nccl_insight.report.figures.base import MAX_ROWS, Figure
from nccl_insight.report.figures.nodes import KIND, Place, named_ranks, of_main, place, rank_pairs
from nccl_insight.tables.run import Run
from nccl_insight.units import format_ranks, plural

_CLASSES = 8
_VISITS = 4
_LEFT, _BOX, _GAP, _ROW = 150.0, 236.0, 72.0, 92.0


@dataclass(frozen=True)
class Ring:
    """One ring: its ranks in order, of ``nranks``; ``whole`` unless the log cuts the order."""

    channel: int
    order: tuple[int, ...]
    nranks: int

    @property
    def whole(self) -> bool:
        return len(self.order) >= self.nranks

    def hops(self) -> list[tuple[int, int]]:
        """Pairs of neighbors; the way back to the first rank only where the order is whole."""
        pairs = list(zip(self.order, self.order[1:], strict=False))
        return [*pairs, (self.order[-1], self.order[0])] if self.whole and len(self.order) > 1 else pairs


@dataclass(frozen=True)
class _Visit:
    """The part of a ring on one node, from the rank where it enters to the one where it leaves; NIC of the way out."""

    node: int
    ranks: tuple[int, ...]
    local: tuple[int, ...]
    nic: str


def rings(analysis: Analysis, run: Run) -> Figure | None:
    """Each class of alike rings as a row of nodes; an order that the log cuts is drawn as far as it goes."""
    found = ring_orders(run)
    if not found:
        return None
    where = place(run)
    ways = _nics(run)
    kinds = {(s, d): k for s, d, k in rank_pairs(run).select("src_rank", "dst_rank", "kind").iter_rows()}
    classes: dict[tuple[object, ...], list[tuple[Ring, list[_Visit]]]] = defaultdict(list)
    rows = []
    crossings = []
    for ring in found:
        visits = _visits(ring, where, ways)
        key = (ring.whole, *((v.node, v.ranks, v.nic) for v in visits))
        classes[key].append((ring, visits))
        crossed = len(visits) if ring.whole and len(visits) > 1 else max(0, len(visits) - 1)
        crossings.append(crossed)
        used = Counter(KIND[kinds[hop]].name for hop in ring.hops() if hop in kinds)
        order = " > ".join(map(str, ring.order[:24])) + (" ..." if len(ring.order) > 24 else "")
        rows.append(
            (str(ring.channel), f"{len(ring.order)} of {ring.nranks}", str(crossed),
             ", ".join(f"{n} {k}" for k, n in used.most_common()) or "not printed",
             order + ("" if ring.whole else " (cut in the log)"))
        )  # fmt: skip
    return Figure(
        "rings", "Rings", _said(found, where, crossings, len(classes)) + ".",
        ("Channel", "Ranks in the log", "Hops between nodes", "Transports", "Order"), tuple(rows[:MAX_ROWS]),
        len(rows), (0, 2), "Ring order by channel",
        svg=_draw(list(classes.values()), where, named_ranks(analysis)), wide=True,
    )  # fmt: skip


def ring_orders(run: Run) -> list[Ring]:
    """Rings of the largest communicator by channel: printed orders, or what each rank printed of its neighbors."""
    table = of_main(run, "rings").drop_nulls(["channel", "position", "rank"])
    sizes = of_main(run, "communicators")["nranks"].drop_nulls()
    neighbors: dict[int, dict[int, int]] = defaultdict(dict)
    rows = of_main(run, "ring_neighbours").drop_nulls(["channel", "rank", "next_rank"])
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
    known = max(map(len, orders.values()), default=0)
    nranks = int(str(sizes.max())) if sizes.len() else known
    return [
        Ring(channel, tuple(order), max(nranks, len(order)))
        for channel, order in sorted(orders.items())
        if order
    ]


def _walk(after: Mapping[int, int]) -> list[int]:
    """The order from the lowest rank on, until it comes back or nobody printed the next rank."""
    order = [min(after)]
    while (following := after.get(order[-1])) is not None and following not in order:
        order.append(following)
    return order


def _nics(run: Run) -> dict[tuple[int, int, int], str]:
    """Name of the NIC that a channel leaves a node by: ``(channel, from, to)``."""
    names = {
        (host, index): str(name)
        for host, index, name in nics(run)
        .filter(pl.col("index").is_not_null())
        .select("host", "index", "name")
        .iter_rows()
    }
    rows = net_links(run).filter((pl.col("direction") == "send") & pl.col("net_dev").is_not_null())
    return {
        (c, s, d): names.get((h, n), f"NIC {n}")
        for c, s, d, h, n in rows.select(
            "channel", "src_rank", "dst_rank", "local_host", "net_dev"
        ).iter_rows()
    }


def _visits(ring: Ring, where: Place | None, ways: Mapping[tuple[int, int, int], str]) -> list[_Visit]:
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
        visits.append(_Visit(node, tuple(ranks), local, nic))
    return visits


def _said(found: Sequence[Ring], where: Place | None, crossings: Sequence[int], classes: int) -> str:
    whole = [ring for ring in found if ring.whole]
    said = f"{plural(len(found), 'ring')} over {plural(found[0].nranks, 'rank')}"
    said += f", {plural(classes, 'different one')}" if classes < len(found) else ""
    cut = len(found) - len(whole)
    if cut:
        known = min(len(ring.order) for ring in found if not ring.whole)
        many = "each order" if cut == len(found) else f"{cut} orders"
        return said + f"; the log cuts {many} after {known} ranks, so the rest of the way is not known"
    if where and len(where.hosts) > 1:
        low, high, least = min(crossings), max(crossings), len(where.hosts)
        times = str(low) if low == high else f"{low} to {high}"
        said += f"; each crosses between nodes {times} times, "
        said += f"the minimum for {least} nodes" if high <= least else f"at least {least} are needed"
    return said


def _draw(classes: list[list[tuple[Ring, list[_Visit]]]], where: Place | None, named: frozenset[int]) -> str:
    parts: list[str] = []
    widest = _LEFT + _BOX
    shown = classes[:_CLASSES]
    for n, members in enumerate(shown):
        y = 10 + _ROW * n
        ring, visits = members[0]
        channels = format_ranks([r.channel for r, _ in members], 4)
        word = "channel" if len(members) == 1 else "channels"
        parts.append(svg.text(_LEFT - 14, y + 34, f"{word} {channels}", "t e b", 22))
        boxes = _boxes(visits, ring.whole, where)
        x = _LEFT
        for title, visit, chain in boxes:
            hot = [r for r in visit.ranks if r in named]
            parts.append(
                svg.rect(x, y, _BOX, 58, "box hot" if hot else "box plain", title, ranks=visit.ranks)
            )
            parts.append(svg.text(x + 12, y + 21, title, "t b", 30))
            parts.append(svg.text(x + 12, y + 42, chain, "t s", 37))
            x += _BOX
            more = visit is not boxes[-1][1]
            if more or (ring.whole and len(visits) > 1) or not ring.whole:
                cut = not more and not ring.whole
                way = "cut in the log" if cut else visit.nic
                parts.append(
                    svg.line(x, y + 29, x + _GAP - 10, y + 29, "wire dashed" if cut else "wire net", 2)
                )
                if not cut:
                    parts.append(svg.path(f"M{x + _GAP - 12:g} {y + 24:g}l9 5l-9 5z", "tip", 0))
                if cut:
                    parts.append(svg.text(x + 8, y + 48, way, "t s hot"))
                    x += 24
                parts.append(svg.text(x + (_GAP - 10) / 2, y + 21, "" if cut else way, "t c s", 14))
                x += _GAP
        if ring.whole and len(boxes) < len(visits):
            hosts = [where.hosts[v.node] for v in visits] if where else []
            parts.append(svg.text(_LEFT, y + 76, f"nodes in this order: {' > '.join(hosts[:12])}" + (" ..." if len(hosts) > 12 else ""), "t s", 130))  # fmt: skip  # noqa: E501
        elif ring.whole:
            back = "back to the first rank" if len(visits) < 2 else "back to the first node"
            parts.append(svg.text(x + 4 if len(visits) > 1 else x + 10, y + 33, back, "t s"))
            x += 140
        widest = max(widest, x)
    height = 10 + _ROW * len(shown)
    if len(classes) > len(shown):
        parts.append(
            svg.text(
                _LEFT, height + 10, f"and {len(classes) - len(shown)} more kinds of rings in the table", "t s"
            )
        )
        height += 24
    return svg.drawing(max(widest, 560) + 12, height, "Rings by node", parts)


def _boxes(visits: list[_Visit], whole: bool, where: Place | None) -> list[tuple[str, _Visit, str]]:
    """Title, visit and chain of ranks of each box; one box for nodes that the ring passes alike."""
    if len(visits) <= _VISITS or not whole:
        return [(_title(v, where), v, _chain(v.ranks)) for v in visits[:_VISITS]]
    alike = Counter((v.local, v.nic) for v in visits).most_common()
    boxes = []
    for (local, nic), count in alike[:3]:
        first = next(v for v in visits if (v.local, v.nic) == (local, nic))
        if count == 1:
            boxes.append((_title(first, where), first, _chain(first.ranks)))
        else:
            boxes.append((f"each of {count} nodes", first, "GPU " + _chain(local)))
    return boxes


def _title(visit: _Visit, where: Place | None) -> str:
    host = svg.clip(where.hosts[visit.node], 16) if where and visit.node >= 0 else "host unknown"
    if len(visit.ranks) == 1:
        return f"{host}: rank {visit.ranks[0]}"
    return f"{host}: in {visit.ranks[0]}, out {visit.ranks[-1]}"


def _chain(ranks: Sequence[int]) -> str:
    return " > ".join(map(str, ranks if len(ranks) <= 9 else (*ranks[:4], "...", *ranks[-2:])))
