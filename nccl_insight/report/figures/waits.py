"""Who waits for whom: waiting and transfer apart, the rank that comes last marked, in every matched collective."""

from collections.abc import Sequence

from nccl_insight.base.model import Analysis
from nccl_insight.base.units import format_ns, plural
from nccl_insight.report.figures import svg
from nccl_insight.report.figures.base import Figure, listing
from nccl_insight.report.figures.nodes import named_ranks
from nccl_insight.views.waits import Member, Waits

_RANKS = 32
_LEFT, _WIDE, _RIGHT, _TOP = 84.0, 960.0, 170.0, 40.0


def who_waits(analysis: Analysis, view: Waits) -> Figure:
    """A row per rank over time where the clocks allow, else over the collectives in their order."""
    whole = view.total_ns
    most = sorted(view.for_rank, key=lambda r: (-view.for_rank[r], r))
    said = f"All ranks together wait {format_ns(view.total_ns)} in {plural(view.collectives, 'matched collective')}"
    if whole:
        said += f", most of it for rank {most[0]}, which came last: {format_ns(view.for_rank[most[0]])}"
        if 2 * view.unseen_ns > view.for_rank[most[0]]:
            said += f" ({format_ns(view.unseen_ns)} in its first one: what it did before was hardly recorded)"
    ranks = _ranks(analysis, view)
    drawn = [m for m in view.members if m.rank in set(ranks)]
    drawing = (_timeline if view.clocks else _sequence)(drawn, ranks, view, named_ranks(analysis))
    said += f". Shown: {_window(view)}" + (
        f", {len(ranks)} of {len(view.of_rank)} ranks" if len(ranks) < len(view.of_rank) else ""
    )
    said += (
        ". Pale: waiting for the last rank; solid: the transfer; ▼: the rank that comes last"
        if view.clocks
        else (
            ". One column per collective, because the ranks have no common clock; the darker, the longer the wait; "
            "▼: the rank that comes last"
        )
    )
    table = tuple(
        (str(r), format_ns(view.of_rank[r]), str(view.times_last.get(r, 0)), format_ns(view.for_rank.get(r, 0)),
         f"{view.for_rank.get(r, 0) / whole:.0%}" if whole else "0%")
        for r in sorted(view.of_rank, key=lambda r: (-view.for_rank.get(r, 0), r))
    )  # fmt: skip
    return Figure(
        "waits",
        "Who waits for whom",
        said + ".",
        listing(
            "Rank#|Waits for others#|Times last#|Others wait for it#|Share of all waiting#",
            table,
            "Waiting by rank, the rank that others wait for most first",
        ),
        wide=view.clocks or _span(view) > _WIDE / 2,
        svg=drawing,
    )


def _window(view: Waits) -> str:
    """The collectives that are shown."""
    where = f"step {view.step}" if view.step is not None else ""
    if view.cut:
        return f"the first {view.shown} collectives" + (f" of {where}" if where else "")
    return where or "all of them"


def _ranks(analysis: Analysis, view: Waits) -> list[int]:
    """All ranks where there are few; else those that findings name and those that others wait for most."""
    ranks = sorted({m.rank for m in view.members})
    if len(ranks) <= _RANKS:
        return ranks
    named = named_ranks(analysis)
    order = sorted(ranks, key=lambda r: (r not in named, -view.for_rank.get(r, 0), r))
    return sorted(order[:_RANKS])


def _span(view: Waits) -> float:
    """How wide the columns of collectives are together, which few do not fill."""
    return max(_WIDE / 4, min(_WIDE, 40.0 * view.shown))


def _frame(ranks: list[int], view: Waits, named: frozenset[int], row: float, span: float) -> list[str]:
    beside = _LEFT + span + 14
    parts = [svg.text(beside, _TOP - 14, "waits", "t b s"), svg.text(beside + 74, _TOP - 14, "for it", "t b s")]
    for n, rank in enumerate(ranks):
        y = _TOP + row * (n + 0.5) + 4
        parts.append(svg.text(_LEFT - 10, y, f"rank {rank}", "t e hot" if rank in named else "t e", ranks=(rank,)))
        parts.append(svg.text(beside, y, format_ns(view.of_rank.get(rank, 0)), "t s"))
        parts.append(svg.text(beside + 74, y, format_ns(view.for_rank.get(rank, 0)), "t s b"))
    return parts


def _timeline(rows: Sequence[Member], ranks: list[int], view: Waits, named: frozenset[int]) -> str:
    row = 32.0 if len(ranks) <= 16 else 22.0
    origin = min(m.start_ns for m in rows)
    end = max(m.start_ns + m.duration_ns for m in rows)
    scale = _WIDE / max(1, end - origin)
    place = {rank: n for n, rank in enumerate(ranks)}
    height = _TOP + row * len(ranks)
    parts: list[str] = []
    for at in _ticks(end - origin):
        x = _LEFT + at * scale
        parts += [
            svg.line(x, _TOP - 4, x, height, "rule", 1),
            svg.text(x, height + 18, format_ns(at) if at else "0", "t c s"),
        ]
    parts += _frame(ranks, view, named, row, _WIDE)
    marks: list[str] = []
    for item in rows:
        rank, took = item.rank, item.duration_ns
        waits = min(item.wait_ns, took)
        x, y = _LEFT + (item.start_ns - origin) * scale, _TOP + row * place[rank]
        middle = x + waits * scale
        said = f"rank {rank} {item.op}: waits {format_ns(waits)}, transfer {format_ns(took - waits)}"
        if waits * scale >= 0.5:
            parts.append(svg.rect(x, y + row * 0.25, waits * scale, row * 0.5, "wait", said, ranks=(rank,), radius=0))
        solid = max(1.5, (took - waits) * scale)
        parts.append(svg.rect(middle, y + row * 0.1, solid, row * 0.8, "move", said, ranks=(rank,), radius=0))
        if item.last:
            marks.append(svg.path(f"M{x - 5:g} {y - 5:g}h10l-5 8z", "last", 0, ranks=(rank,)))
    return svg.drawing(_LEFT + _WIDE + _RIGHT, height + 28, "Who waits for whom", [*parts, *marks])


def _ticks(span_ns: int) -> list[int]:
    """Round times within a span, four to nine of them."""
    step = 10 ** max(0, len(str(max(1, span_ns))) - 1)
    for factor in (1, 2, 5, 10, 20, 50, 100):
        if span_ns * factor // step >= 4:
            step = max(1, step // factor)
            break
    return list(range(0, span_ns + 1, step))[:12]


def _sequence(rows: Sequence[Member], ranks: list[int], view: Waits, named: frozenset[int]) -> str:
    row = 26.0 if len(ranks) <= 16 else 18.0
    place = {rank: n for n, rank in enumerate(ranks)}
    span = _span(view)
    wide = span / max(1, view.shown)
    longest = max(1, *(m.wait_ns for m in rows))
    height = _TOP + row * len(ranks)
    parts = _frame(ranks, view, named, row, span)
    marks: list[str] = []
    for item in rows:
        rank, waits = item.rank, item.wait_ns
        x, y = _LEFT + wide * item.collective, _TOP + row * place[rank]
        level = 0 if not waits else 1 + min(4, 5 * waits // (longest + 1))
        said = f"rank {rank}, collective {item.collective + 1} ({item.op}): waits {format_ns(waits)}"
        parts.append(svg.rect(x, y + 1, max(1, wide - 1.5), row - 2, f"heat h{level}", said, ranks=(rank,), radius=2))
        if item.last:
            middle = x + wide / 2 - 0.75
            marks.append(svg.path(f"M{middle - 5:g} {y + row / 2 - 4:g}h10l-5 8z", "last", 0, ranks=(rank,)))
    parts.append(svg.text(_LEFT, height + 18, "collectives in their order", "t s"))
    return svg.drawing(_LEFT + span + _RIGHT, height + 28, "Who waits for whom", [*parts, *marks])
