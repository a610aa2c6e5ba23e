"""How far each rank got: rank by milestone, ranks that got equally far in one row."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from nccl_insight.base.model import Analysis, Milestones
from nccl_insight.base.units import rank_words
from nccl_insight.report.figures import svg
from nccl_insight.report.figures.base import Figure, listing

_STEPS = (
    ("launched", "launched"), ("bootstrapped", "bootstrap"), ("init_started", "init started"),
    ("init_completed", "init done"), ("connected", "connected"), ("first_call", "first call"),
    ("last_call", "last call"), ("destroyed", "closed"),
)  # fmt: skip
_SINGLE = 16
_SHOWN = 24
_NAME = 44
_CELL, _ROW, _TOP = 96, 30, 34


def journey(analysis: Analysis) -> Figure | None:
    """One row per rank, or per class of ranks that show the same steps and the same end."""
    progress = analysis.progress
    if progress is None or len(rows := _rows(progress.ranks)) < 2:
        return None  # all alike: the sentence says it
    named = {rank for finding in analysis.findings if finding.severity.value != "info" for rank in finding.ranks}
    steps = [(key, label) for key, label in _STEPS if any(getattr(m, key) is not None for m in progress.ranks)]
    left = svg.room((f"> {name}" for name, _ in rows[:_SHOWN]), _NAME)
    right = left + _CELL * len(steps)
    parts = [svg.text(left + _CELL * (i + 0.5), 20, label, "t c") for i, (_, label) in enumerate(steps)]
    parts.append(svg.text(right + 8, 20, "ends", "t"))
    table: list[tuple[str, ...]] = []
    for number, (name, members) in enumerate(rows[:_SHOWN]):
        y, best = _TOP + _ROW * number, members[0]
        ranks = [m.rank for m in members]
        css, shown = ("t e", name) if named.isdisjoint(ranks) else ("t e hot", f"> {name}")
        parts.append(svg.text(left - 10, y + 18, shown, css, _NAME, ranks=ranks))
        parts += _cells(left, y, steps, members, progress.ranks)
        parts.append(svg.text(right + 8, y + 17, best.end, "t hot" if best.end == "silent" else "t"))
        table.append((name, *("no" if getattr(best, key) is None else "yes" for key, _ in steps), best.end))
    height = _TOP + _ROW * min(len(rows), _SHOWN) + 10
    if len(rows) > _SHOWN:
        parts.append(svg.text(left, height + 10, f"and {len(rows) - _SHOWN} more rows in the table", "t"))
        height += 24
    summary = progress.line + (f". Behind: {rank_words(progress.silent)}" if progress.silent else "")
    return Figure(
        "journey",
        "How far each rank got",
        summary + ".",
        listing("|".join(("rank", *(label for _, label in steps), "ends")), table, "Milestones by rank", len(rows)),
        wide=True,
        svg=svg.drawing(right + 110, height, "How far each rank got", parts),
    )


def _cells(
    left: float, y: float, steps: Sequence[tuple[str, str]], members: Sequence[Milestones], ranks: Sequence[Milestones]
) -> Iterator[str]:
    """Whether ranks got to each step, at which line where it is a single one, and whether others of their group did."""
    others = [m for m in ranks if m.comm_id == members[0].comm_id]
    for i, (key, label) in enumerate(steps):
        x, line = left + _CELL * i, getattr(members[0], key)
        if line is None:
            css = "cell behind" if any(getattr(m, key) for m in others) else "cell none"
            said, word = f"{label}: not in the log", "-"
        else:
            css, said, word = "cell done", f"{label}: line {line}", f"line {line}" if len(members) == 1 else "yes"
        yield svg.rect(x + 2, y, _CELL - 4, _ROW - 6, css, said)
        yield svg.text(x + 0.5 * _CELL, y + 16, word, "t c s")


def _rows(ranks: tuple[Milestones, ...]) -> list[tuple[str, list[Milestones]]]:
    """Few ranks one by one; many in classes of those that got equally far, the odd ones first."""
    comms = {m.comm_id for m in ranks}
    classes: dict[tuple[object, ...], list[Milestones]] = defaultdict(list)
    for item in ranks:
        key = (item.comm_id, item.end, *(getattr(item, step) is not None for step, _ in _STEPS))
        classes[key].append(item)
    if len(ranks) <= _SINGLE and len(comms) == 1 and len(classes) > 1:
        return [(f"rank {m.rank}" + (f" on {m.host}" if m.host else ""), [m]) for m in ranks]
    rows = []
    order = {comm: n for n, comm in enumerate(dict.fromkeys(m.comm_id for m in ranks))}
    for members in sorted(classes.values(), key=lambda g: (order[g[0].comm_id], len(g), g[0].rank)):
        group = f", comm {order[members[0].comm_id] + 1}" if len(comms) > 1 else ""
        rows.append((f"{rank_words([m.rank for m in members], 2 if group else 3)}{group}", members))
    return rows
