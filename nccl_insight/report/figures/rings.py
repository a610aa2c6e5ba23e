"""Rings as the nodes see them: where each enters and leaves a node, by which GPU and NIC; alike channels folded."""

from collections import Counter
from collections.abc import Sequence

from nccl_insight.base.model import Analysis
from nccl_insight.base.units import format_ranks, plural
from nccl_insight.report.figures import svg
from nccl_insight.report.figures.base import Figure, listing
from nccl_insight.report.figures.nodes import KIND, named_ranks
from nccl_insight.report.words import crossed
from nccl_insight.views.rings import Ring, Rings, Visit

_CLASSES = 8
_VISITS = 4
_LEFT, _BOX, _GAP, _ROW = 150.0, 256.0, 72.0, 92.0
_CHAIN = 37
_ORDER, _LETTER = 130, 6.8


def rings(analysis: Analysis, view: Rings) -> Figure:
    """Each class of alike rings as a row of nodes; an order that the log cuts is drawn as far as it goes."""
    rows = []
    for ring in view.rings:
        order = " > ".join(map(str, ring.order[:24])) + (" ..." if len(ring.order) > 24 else "")
        crossings = "" if ring.crossings is None else str(ring.crossings)
        kinds = ", ".join(f"{n} {KIND[k].name}" for k, n in ring.kinds) or "not printed"
        order += "" if ring.whole else " (cut in the log)"
        rows.append((str(ring.channel), f"{len(ring.order)} of {ring.nranks}", crossings, kinds, order))
    return Figure(
        "rings",
        "Rings",
        _said(view) + ".",
        listing("Channel#|Ranks in the log|Hops between nodes#|Transports|Order", rows, "Ring order by channel"),
        wide=True,
        svg=_draw(view.classes, named_ranks(analysis)),
    )


def _said(view: Rings) -> str:
    found, classes = view.rings, len(view.classes)
    whole = [ring for ring in found if ring.whole]
    said = f"{plural(len(found), 'ring')} over {plural(found[0].nranks, 'rank')}"
    said += f", {'all alike' if classes == 1 else plural(classes, 'different one')}" if classes < len(found) else ""
    cut = len(found) - len(whole)
    if cut:
        known = min(len(ring.order) for ring in found if not ring.whole)
        many = "each order" if cut == len(found) else f"{cut} orders"
        return said + f"; the log cuts {many} after {known} ranks, so the rest of the way is not known"
    crossings = [ring.crossings for ring in found if ring.crossings is not None]
    if view.nodes > 1 and crossings:
        low, high, least = min(crossings), max(crossings), view.nodes
        said += f"; each crosses between nodes {crossed(low, high, least, 'nodes')}"
    return said


def _draw(classes: Sequence[Sequence[Ring]], named: frozenset[int]) -> str:
    parts: list[str] = []
    widest = _LEFT + _BOX
    shown = classes[:_CLASSES]
    for n, members in enumerate(shown):
        y = 10 + _ROW * n
        ring = members[0]
        visits = ring.visits
        channels = format_ranks([r.channel for r in members], 4)
        word = "channel" if len(members) == 1 else "channels"
        parts.append(svg.text(_LEFT - 14, y + 34, f"{word} {channels}", "t e b", 22))
        boxes = _boxes(visits, ring.whole)
        x = _LEFT
        for title, visit, chain in boxes:
            hot = [r for r in visit.ranks if r in named]
            parts.append(svg.rect(x, y, _BOX, 58, "box hot" if hot else "box plain", title, ranks=visit.ranks))
            parts.append(svg.text(x + 12, y + 21, title, "t b", 30))
            parts.append(svg.text(x + 12, y + 42, chain, "t s", _CHAIN))
            x += _BOX
            more = visit is not boxes[-1][1]
            if not ring.whole and not more:
                parts.append(svg.line(x, y + 29, x + _GAP - 10, y + 29, "wire dashed", 2))
                parts.append(svg.text(x + 8, y + 48, "cut in the log", "t s hot"))
                parts.append(svg.text(x + 24 + (_GAP - 10) / 2, y + 21, "", "t c s", 14))
                x += 24 + _GAP
            elif more or len(visits) > 1:
                parts.append(svg.line(x, y + 29, x + _GAP - 10, y + 29, "wire net", 2))
                parts.append(svg.path(f"M{x + _GAP - 12:g} {y + 24:g}l9 5l-9 5z", "tip", 0))
                parts.append(svg.text(x + (_GAP - 10) / 2, y + 21, visit.nic, "t c s", 14))
                x += _GAP
        if ring.whole and len(boxes) < len(visits):
            hosts = " > ".join(v.host or "host unknown" for v in visits[:12]) + (" ..." if len(visits) > 12 else "")
            order = f"nodes in this order: {hosts}"
            parts.append(svg.text(_LEFT, y + 76, order, "t s", _ORDER))
            widest = max(widest, _LEFT + _LETTER * min(len(order), _ORDER))
        elif ring.whole:
            beside, what = (4, "node") if len(visits) > 1 else (10, "rank")
            parts.append(svg.text(x + beside, y + 33, f"back to the first {what}", "t s"))
            x += 140
        widest = max(widest, x)
    height = 10 + _ROW * len(shown)
    if len(classes) > len(shown):
        more_kinds = f"and {len(classes) - len(shown)} more kinds of rings in the table"
        parts.append(svg.text(_LEFT, height + 10, more_kinds, "t s"))
        height += 24
    return svg.drawing(max(widest, 560) + 12, height, "Rings by node", parts)


def _boxes(visits: Sequence[Visit], whole: bool) -> list[tuple[str, Visit, str]]:
    """Title, visit and chain of ranks of each box; one box for nodes that the ring passes alike."""
    if len(visits) <= _VISITS or not whole:
        return [(_title(v), v, _chain(v.ranks)) for v in visits[:_VISITS]]
    alike = Counter((v.local, v.nic) for v in visits).most_common()
    boxes = []
    for (local, nic), count in alike[:3]:
        first = next(v for v in visits if (v.local, v.nic) == (local, nic))
        if count == 1:
            boxes.append((_title(first), first, _chain(first.ranks)))
        else:
            boxes.append((f"each of {count} nodes", first, "GPU " + _chain(local)))
    return boxes


def _title(visit: Visit) -> str:
    host = "host unknown" if visit.host is None else svg.clip(visit.host, 16)
    if len(visit.ranks) == 1:
        return f"{host}: rank {visit.ranks[0]}"
    return f"{host}: in {visit.ranks[0]}, out {visit.ranks[-1]}"


def _chain(ranks: Sequence[int]) -> str:
    shown = " > ".join(map(str, ranks))
    return shown if len(shown) <= _CHAIN else " > ".join(map(str, (*ranks[:4], "...", *ranks[-2:])))
