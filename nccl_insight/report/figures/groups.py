"""How far each rank got in each process group: flight-recorder dumps, or the lines of torch's watchdog."""

from __future__ import annotations

from collections.abc import Sequence

from nccl_insight.model import Analysis
from nccl_insight.report.figures import svg
from nccl_insight.report.figures.base import MAX_ROWS, Figure
from nccl_insight.report.figures.nodes import named_ranks
from nccl_insight.units import format_ranks, plural, rank_words
from nccl_insight.views.groups import Group, Groups

_GROUPS = 24
_NAME = 38
_RANKS = 64


def groups(analysis: Analysis, view: Groups) -> Figure:
    """Process group by rank: the last collective of each rank, relative to the furthest rank of its group."""
    rows = view.groups
    names = [_label(g, view.by_watchdog) for g in rows]
    odd = [g for g in rows if g.behind or g.silent]
    late = sorted({r for g in rows for r in g.behind})
    silent = sorted({r for g in rows for r in g.silent})
    many = f", {len(odd) or 'none'} of them with a rank that is behind or silent" if len(rows) > 1 else ""
    said = [plural(len(rows), "process group") + many]
    said += [f"behind: {rank_words(late)}; the others wait"] if late else []
    said += [f"silent: {rank_words(silent)}"] if silent else []
    if not odd:
        said.append("every rank has issued the same collective")
    table = tuple(
        (name, str(len(g.issued)), str(g.furthest), _behind(g), format_ranks(g.silent) or "none")
        for name, g in zip(names, rows, strict=True)
    )
    return Figure(
        "groups", "How far each rank got, by process group",
        "; ".join(said) + ". Last collective of each rank, relative to the furthest rank of its group.",
        ("Process group", "Ranks", "Furthest collective", "Behind", "Silent"), table[:MAX_ROWS], len(table), (1, 2),
        "Process groups, those with a rank behind first", svg=_draw(rows, names, named_ranks(analysis)), wide=True,
    )  # fmt: skip


def _behind(row: Group) -> str:
    shown = ", ".join(f"rank {r} by {n}" for r, n in sorted(row.behind.items())[:12])
    return shown + (f" and {len(row.behind) - 12} more" if len(row.behind) > 12 else "") or "none"


def _label(group: Group, by_watchdog: bool) -> str:
    """The size first, so that a long name can be cut."""
    name = f"process group {group.name}".rstrip() if by_watchdog else group.name
    return f"{len(group.issued)} ranks: {name}"


def _draw(groups: Sequence[Group], names: Sequence[str], named: frozenset[int]) -> str:
    rows = groups[:_GROUPS]
    ranks = sorted({r for g in rows for r in g.issued})
    if len(ranks) > _RANKS:
        telling = {r for g in rows for r in (*g.behind, *g.silent)}
        keep = {r for r in ranks if r in telling or r in named}
        ranks = sorted([*keep, *(r for r in ranks if r not in keep)][:_RANKS])
    more = f"and {len(groups) - len(rows)} more in the table" if len(groups) > len(rows) else ""
    left, row, top = svg.room([more, *names[:_GROUPS]], _NAME), 28.0, 40.0
    cell = max(17.0, min(52.0, 900 / max(1, len(ranks))))
    column = {r: left + cell * n for n, r in enumerate(ranks)}
    parts = []
    every = 1 if cell >= 26 else 2
    for n, (rank, x) in enumerate(column.items()):
        if n % every == 0 or rank in named:
            parts.append(
                svg.text(
                    x + cell / 2,
                    top - 12,
                    f"r{rank}",
                    "t c s hot" if rank in named else "t c s",
                    ranks=(rank,),
                )
            )
    for n, group in enumerate(rows):
        y = top + row * n
        parts.append(svg.text(left - 10, y + 18, names[n], "t e hot" if group.behind else "t e", _NAME))
        for rank, number in group.issued.items():
            if rank not in column:
                continue
            gap = group.behind.get(rank, 0)
            css, word = (
                ("cell none", "?")
                if number is None
                else ("cell late", f"-{gap}")
                if gap
                else ("cell done", "=")
            )
            said = f"rank {rank}: " + (
                "nothing from it"
                if number is None
                else f"collective {number}, {gap} behind"
                if gap
                else f"collective {number}"
            )
            parts.append(svg.rect(column[rank] + 1, y, cell - 2, row - 6, css, said, ranks=(rank,)))
            if cell >= 20 or gap:
                parts.append(
                    svg.text(
                        column[rank] + cell / 2, y + 17, word, "t c b" if gap else "t c s", ranks=(rank,)
                    )
                )
    height = top + row * len(rows) + 26
    key, wide = svg.legend(
        left,
        height - 6,
        (
            ("cell done", "= level"),
            ("cell late", "-n collectives behind"),
            ("cell none", "? nothing from it"),
        ),
    )
    parts += key
    if more:
        parts.append(svg.text(left - 10, height - 6, more, "t e s"))
    width = left + max(cell * len(ranks), wide) + 20
    return svg.drawing(width, height + 6, "How far each rank got, by process group", parts)
