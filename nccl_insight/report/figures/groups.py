"""How far each rank got in each process group: flight-recorder dumps, or the lines of torch's watchdog."""

from collections.abc import Sequence

from nccl_insight.base.units import format_ranks, listed, plural, rank_words
from nccl_insight.report.figures import svg
from nccl_insight.report.figures.base import Figure, listing
from nccl_insight.views.groups import Group, Groups

_GROUPS = 8
_NAME = 40
_BESIDE = 450
"""The width that the column beside the words has, in pixels."""
_ROOM = 330
"""That of all columns together, which a phone shows."""


def groups(view: Groups) -> Figure:
    """Process group by rank: the last collective of each rank, relative to the furthest rank of its group."""
    rows = view.groups
    names = [_label(g, view.by_watchdog) for g in rows]
    odd = [g for g in rows if g.behind or g.silent]
    late = sorted({r for g in rows for r in g.behind})
    silent = sorted({r for g in rows for r in g.silent})
    many = f", {len(odd) or 'none'} of them with a rank that is behind or silent" if len(rows) > 1 else ""
    said = [plural(len(rows), "process group") + many]
    said += [f"behind: {rank_words(late)}"] if late else []
    said += [f"silent: {rank_words(silent)}"] if silent else []
    said += [f"the job waits for {rank_words(view.late)}"] if view.late else ["the others wait"] if late else []
    if not odd:
        said.append("every rank has issued the same collective")
    drawing, wide = _draw(rows, names, view.late)
    table = tuple(
        (name, str(len(g.issued)), str(g.furthest), _behind(g), format_ranks(g.silent) or "none")
        for name, g in zip(names, rows, strict=True)
    )
    return Figure(
        "groups",
        "How far each rank got, by process group",
        "; ".join(said) + ". Last collective of each rank, relative to the furthest rank of its group.",
        listing(
            "Process group|Ranks#|Furthest collective#|Behind|Silent",
            table,
            "Process groups, those with a rank behind first",
        ),
        wide=wide > _BESIDE,
        svg=drawing,
    )


def _behind(row: Group) -> str:
    return listed((f"rank {r} by {n}" for r, n in sorted(row.behind.items())), 12) or "none"


def _label(group: Group, by_watchdog: bool) -> str:
    number, _, called = group.name.partition(" (")  # the name tells more than the number, and long ones are cut
    name = f"{called.removesuffix(')')} {number}" if called and not called[0].isdigit() else group.name
    name = f"process group {name}".rstrip() if by_watchdog else name
    return f"{name} ({plural(len(group.issued), 'rank')})"


def _columns(groups: Sequence[Group], guilty: frozenset[int]) -> list[tuple[int, ...]]:
    """The ranks that tell something, the guilty first, each with those of which the same is told; the others in one."""
    told: dict[tuple[object, ...], list[int]] = {}
    others: list[int] = []
    for rank in sorted({r for g in groups for r in g.issued}):
        row = tuple(
            None if rank not in g.issued else "?" if rank in g.silent else g.behind.get(rank, 0) for g in groups
        )
        if any(row) or rank in guilty:
            told.setdefault((*row, rank in guilty), []).append(rank)
        else:
            others.append(rank)
    columns = [tuple(ranks) for ranks in told.values()]
    columns.sort(key=lambda ranks: (ranks[0] not in guilty, ranks[0]))
    return [*columns, *([tuple(others)] if others else [])]


def _cell(group: Group, ranks: Sequence[int]) -> tuple[str, str, str] | None:
    """Class, word and tooltip of what a column of ranks is to a group; None where they are not in it."""
    members = [r for r in ranks if r in group.issued]
    if not members:
        return None
    number, gap = group.issued[members[0]], group.behind.get(members[0], 0)
    who = rank_words(members)
    if number is None:
        return "cell none", "?", f"{who}: nothing"
    if gap:
        return "cell late", f"-{gap}", f"{who}: collective {number}, {gap} behind"
    return "cell done", "=", f"{who}: level"


def _draw(groups: Sequence[Group], names: Sequence[str], guilty: frozenset[int]) -> tuple[str, float]:
    """The drawing, each group's name above its row, and its width: it stands beside the words, and on a phone."""
    # Who is to blame stands in few groups; of the others the table tells.
    shown = [n for n, g in enumerate(groups) if guilty & g.issued.keys()] or list(range(len(groups)))
    rows = [groups[n] for n in shown[:_GROUPS]]
    columns, left_out = _columns(rows, guilty), 0
    heads = [f"r{format_ranks(ranks, 2)}" for ranks in columns]
    widths = [max(44.0, 7.5 * len(head) + 12) for head in heads]
    while len(columns) > 2 and sum(widths) > _ROOM:
        left_out += len(columns.pop(-2))
        del heads[-2], widths[-2]
    unseen = {"group": len(groups) - len(rows), "rank": left_out}
    more = " and ".join(plural(n, f"further {what}") for what, n in unseen.items() if n)
    left, row, top = 10.0, 46.0, 30.0
    parts, x = [], left
    for ranks, head, wide in zip(columns, heads, widths, strict=True):
        hot = guilty.issuperset(ranks)
        parts.append(svg.text(x + wide / 2, top - 12, head, "t c s hot" if hot else "t c s", ranks=ranks))
        for n, group in enumerate(rows):
            if found := _cell(group, ranks):
                (css, word, said), y = found, top + row * n + 18
                parts.append(svg.rect(x + 1, y, wide - 2, 22, css, said, ranks=ranks))
                weight = {"cell late": "t c b"}.get(css, "t c s")
                parts.append(svg.text(x + wide / 2, y + 16, word, weight, ranks=ranks))
        x += wide
    for n, (at, group) in enumerate(zip(shown, rows, strict=False)):
        css = "t hot" if guilty & {*group.behind, *group.silent} else "t"
        parts.append(svg.text(left, top + row * n + 13, names[at], css, _NAME))
    height = top + row * len(rows) + 22
    key, wide = svg.legend(
        left, height, (("cell done", "= level"), ("cell late", "-n behind"), ("cell none", "? silent"))
    )
    words = f"{more} in the table" if more else ""
    parts.append(svg.text(left, height + 22, words, "t s"))
    room = svg.room((*(names[n] for n in shown[:_GROUPS]), words), _NAME)
    size = max(x, left + wide, room) + 10, height + (34 if more else 12)
    return svg.drawing(*size, "How far each rank got, by process group", [*parts, *key]), size[0]
