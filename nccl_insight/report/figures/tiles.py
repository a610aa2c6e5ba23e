"""The cluster as tiles, one per node, colored by what the reader chooses; alike nodes are classes."""

from collections import Counter
from collections.abc import Sequence

from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Analysis, Severity
from nccl_insight.base.units import format_ranks, listed, plural, rank_words
from nccl_insight.report.figures import svg
from nccl_insight.report.figures.base import MAX_ROWS, Figure, listing
from nccl_insight.report.figures.nodes import KIND, trouble
from nccl_insight.views.cluster import Class, Cluster
from nccl_insight.views.place import Place

_MOST = 1024
_LABELED = 64
_CLASSES = 6
_LEVELS = 5


@dataclass(frozen=True)
class Layer:
    """A way to color the tiles: a bucket per node (an index into ``legend``) and what each bucket means."""

    name: str
    legend: tuple[tuple[str, str], ...]
    bucket: tuple[int, ...]
    said: tuple[str, ...]


def tile_map(analysis: Analysis, view: Cluster) -> Figure | None:
    """One tile per node of the largest communicator."""
    where, classes = view.place, view.class_of
    words = [_words(item) for item in view.classes]
    layers = [
        layer
        for layer in (
            _findings(analysis, where),
            _alike(classes, words),
            _levels("init time", view.init_s, "s"),
            _nics(view),
        )
        if layer
    ]
    hosts_in, ranks_in = trouble(analysis)
    if len(set(classes)) == 1 and len(where.hosts) <= 8 and not hosts_in and not ranks_in:
        return None  # a few nodes, all alike: the drawing of one node says it all
    said = f"{plural(len(where.hosts), 'node')} with {plural(where.nranks, 'rank')}"
    said += (
        "; all alike"
        if len(set(classes)) == 1
        else f" in {plural(len(set(classes)), 'class', 'classes')} of alike nodes"
    )
    if hosts_in:
        said += f"; findings name {listed(sorted(hosts_in), 6)}"
    if len(where.hosts) > _MOST:
        said += f"; the first {_MOST:,} are drawn"
    order = sorted(
        range(len(where.hosts)), key=lambda n: (found.order if (found := hosts_in.get(where.hosts[n])) else 9, n)
    )
    further = [layer for layer in layers if layer.name not in ("class", "findings")]
    extra = [layer.name for layer in further]
    rows = tuple(
        (
            where.hosts[n],
            format_ranks(where.ranks_of[n]),
            words[classes[n]],
            *(layer.said[n] for layer in further),
            hosts_in[where.hosts[n]].value if where.hosts[n] in hosts_in else "none",
        )
        for n in order[:MAX_ROWS]
    )
    return Figure(
        "cluster",
        "Nodes",
        said + ".",
        listing(
            "|".join(("Node", "Ranks", "Class", *extra, "Findings")),
            rows,
            "Nodes, those with findings first",
            len(where.hosts),
        ),
        wide=True,
        choices=tuple(f"by {layer.name}" for layer in layers),
        choice_label="Color",
        svg=_draw(where, layers),
    )


def _findings(analysis: Analysis, where: Place) -> Layer:
    hosts_in, ranks_in = trouble(analysis)
    buckets, said = [], []
    for host, ranks in zip(where.hosts, where.ranks_of, strict=True):
        worst = min(
            (s for s in (hosts_in.get(host), *(ranks_in.get(r) for r in ranks)) if s),
            key=lambda s: s.order,
            default=None,
        )
        buckets.append(0 if worst is None else 1 if worst is Severity.WARNING else 2)
        said.append("no finding" if worst is None else worst.value)
    legend = (("t-ok", "no finding names it"), ("t-warn", "! warning"), ("t-err", "!! error"))
    return Layer("findings", legend, tuple(buckets), tuple(said))


def _words(item: Class) -> str:
    """What is on nodes of a class and how it is used."""
    used = f", {len({nic for _, nic in item.used})} used" if item.used else ""
    parts = [plural(item.ranks, "rank")]
    parts += [plural(item.nics, "NIC") + used] if item.nics else []
    parts += ["inside " + " and ".join(sorted(KIND[k].name for k in item.inside))] if item.inside else []
    parts += ["to others " + " and ".join(sorted(KIND[k].name for k in item.between))] if item.between else []
    return ", ".join(parts)


def _alike(classes: Sequence[int], words: Sequence[str]) -> Layer:
    counts = Counter(classes)
    legend = [(f"t-{n}", f"{counts[n]:,}: {words[n]}") for n in range(min(len(words), _CLASSES))]
    if len(words) > _CLASSES:
        legend.append((f"t-{_CLASSES}", f"{len(words) - _CLASSES} more classes"))
    return Layer("class", tuple(legend), tuple(min(c, _CLASSES) for c in classes), tuple(words[c] for c in classes))


def _nics(view: Cluster) -> Layer | None:
    known = {n for n in view.nics if n is not None}
    return None if len(known) < 2 and None not in view.nics else _levels("NICs", view.nics, "")


def _levels(name: str, values: Sequence[float | None], unit: str) -> Layer | None:
    """Five levels between the least and the most; None where no value is known."""
    known = [v for v in values if v is not None]
    if not known:
        return None
    low, high = min(known), max(known)
    span = (high - low) or 1.0
    bucket = tuple(0 if v is None else 1 + min(_LEVELS - 1, int(_LEVELS * (v - low) / span)) for v in values)
    steps = [low + span * n / _LEVELS for n in range(_LEVELS)]
    legend = [("t-none", "not known"), *((f"t-l{n}", f"from {s:.3g} {unit}".rstrip()) for n, s in enumerate(steps))]
    said = tuple("not known" if v is None else f"{v:.3g} {unit}".rstrip() for v in values)
    return Layer(name, tuple(legend), bucket, said)


def _draw(where: Place, layers: Sequence[Layer]) -> str:
    hosts = where.hosts[:_MOST]
    labeled = len(hosts) <= _LABELED
    columns = min(len(hosts), 8 if labeled else 32)
    wide, tall = (138.0, 46.0) if labeled else (31.0, 26.0)
    left, top = (10.0, 10.0) if labeled else (130.0, 10.0)
    parts = []
    for n, host in enumerate(hosts):
        x, y = left + wide * (n % columns), top + tall * (n // columns)
        buckets = [layer.legend[layer.bucket[n]][0] for layer in layers]
        said = f"{host}: {rank_words(where.ranks_of[n])}; " + "; ".join(f"{la.name}: {la.said[n]}" for la in layers)
        tile = svg.rect(x, y, wide - 4, tall - 4, f"tile {buckets[0]}", said, ranks=where.ranks_of[n], host=host)
        parts.append(tile.replace("<rect ", f'<rect data-c="{" ".join(buckets)}" ', 1))
        if labeled:
            mark = {"t-warn": "! ", "t-err": "!! "}.get(buckets[0], "")
            parts.append(svg.text(x + (wide - 4) / 2, y + 19, mark + host, "t c b s", 18))
            parts.append(svg.text(x + (wide - 4) / 2, y + 35, rank_words(where.ranks_of[n], 2), "t c s", 20))
        elif n % columns == 0:
            parts.append(svg.text(left - 8, y + 16, host, "t e s", 18))
    height = top + tall * (-(-len(hosts) // columns)) + 24
    width = left + max(wide * columns, 700)
    tallest = 0.0
    for number, layer in enumerate(layers):
        used = set(layer.bucket)
        rows: list[str] = []
        x, y = left, height
        for index, (css, word) in enumerate(layer.legend):
            if index not in used:
                continue
            key, took = svg.legend(x, y, [(css, word)])
            if x > left and x + took > width:
                x, y = left, y + 22
                key, took = svg.legend(x, y, [(css, word)])
            rows += key
            x += took
        tallest = max(tallest, y - height)
        shown = "" if number == 0 else ' display="none"'
        parts.append(f'<g data-l="{number}"{shown}>{"".join(rows)}</g>')
    return svg.drawing(width + 10, height + tallest + 16, "Nodes", parts)
