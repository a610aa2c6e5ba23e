"""Where NCCL's memory goes: bytes by rank and purpose, on the GPU and in the host's memory."""

from collections.abc import Sequence

from nccl_insight.base.model import Analysis
from nccl_insight.base.units import format_bytes, plural, rank_words
from nccl_insight.report.figures import svg
from nccl_insight.report.figures.base import Figure, listing
from nccl_insight.report.figures.nodes import named_ranks
from nccl_insight.views.memory import Memory, Processes

_COLORS = 6
_SHOWN = 24
_BAR, _ROW, _TOP = 620.0, 30.0, 14.0


def memory(analysis: Analysis, view: Memory) -> Figure:
    """One bar per rank and place, ranks with the same amounts in one row."""
    purposes = [name for name, _ in view.purposes]
    named = purposes[: _COLORS - 1] if len(purposes) > _COLORS else purposes
    table = [
        (
            "unknown" if row.rank is None else str(row.rank), row.host or "unknown", row.place,
            row.comm_id or "unknown", row.purpose or "other", format_bytes(row.bytes), f"{row.count:,}",
            format_bytes(row.peak_bytes or row.bytes),
        )
        for row in view.amounts
    ]  # fmt: skip
    return Figure(
        "memory",
        "Where NCCL's memory goes",
        _said(view),
        listing(
            "Rank#|Host|Place|Communicator|Purpose|Bytes#|Allocations#|Peak#",
            table,
            "Memory by rank, communicator and purpose, most first",
            view.n_amounts,
        ),
        wide=True,
        svg=_draw(view.processes, named, named_ranks(analysis)),
    )


def _said(view: Memory) -> str:
    said = []
    for place in view.places:
        who = f"rank {place.rank}" if place.rank is not None else "one process"
        each = f"on each of {plural(place.processes, 'process', 'processes')}"
        most = format_bytes(place.most_bytes)
        word = "GPU" if place.place == "device" else "host"
        said.append(f"{word} memory: {most} " + (each if place.alike else f"at most, on {who}"))
    first, size = view.purposes[0]
    share = 100 * size / sum(n for _, n in view.purposes)
    return f"{'; '.join(said)}; {share:.0f}% of it is for {first}. From the log's allocation lines."


def _draw(rows: Sequence[Processes], named: Sequence[str], marked: frozenset[int]) -> str:
    shown = rows[:_SHOWN]
    labels = [_label(row) for row in shown]
    left = svg.room(labels, 34)
    most = max(sum(row.bytes.values()) for row in rows)
    parts = []
    for number, (row, label) in enumerate(zip(shown, labels, strict=True)):
        y, x = _TOP + _ROW * number, left
        amounts, known = row.bytes, row.ranks
        hot = any(r in marked for r in known)
        parts.append(svg.text(left - 10, y + 16, label, "t e hot" if hot else "t e", 34, ranks=known))
        for color, purpose in enumerate([*named, "other"]):
            size = amounts.get(purpose, 0) if purpose in named else sum(n for p, n in amounts.items() if p not in named)
            if not size:
                continue
            wide = max(_BAR * size / most, 1.0)
            said = f"{label}: {purpose} {format_bytes(size)} of {row.place} memory"
            parts.append(
                svg.rect(x, y, wide, _ROW - 8, f"cell m{min(color, _COLORS - 1)}", said, ranks=known, radius=2)
            )
            if wide > 7.2 * len(format_bytes(size)) + 8:
                parts.append(svg.text(x + wide / 2, y + 15, format_bytes(size), "t c s ink"))
            x += wide
        parts.append(svg.text(x + 8, y + 16, format_bytes(sum(amounts.values())), "t b"))
    height = _TOP + _ROW * len(shown) + 22
    shades = [(f"cell m{n}", purpose) for n, purpose in enumerate(named)]
    if any(p not in named for row in rows for p in row.bytes):
        shades.append((f"cell m{_COLORS - 1}", "other"))
    key, wide = svg.legend(left, height - 4, shades)
    parts += key
    if len(rows) > len(shown):
        parts.append(svg.text(left - 10, height - 4, f"and {len(rows) - len(shown)} more", "t e s"))
    width = left + max(_BAR + 90, wide) + 10
    return svg.drawing(width, height + 8, "Memory of NCCL by rank and purpose", parts)


def _label(row: Processes) -> str:
    who = rank_words(row.ranks, 3) if row.ranks else plural(row.processes, "process", "processes")
    return f"{who}, {'GPU' if row.place == 'device' else 'host'}"
