"""How far each rank got in each process group: flight-recorder dumps, or the lines of torch's watchdog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from nccl_insight.facts import flight_recorder, watchdog
from nccl_insight.model import Analysis
from nccl_insight.report.figures import svg
from nccl_insight.report.figures.base import MAX_ROWS, Figure
from nccl_insight.report.figures.nodes import named_ranks
from nccl_insight.tables.run import Run
from nccl_insight.units import format_ranks, plural

_GROUPS = 24
_NAME = 38
_RANKS = 64


@dataclass(frozen=True)
class _Row:
    """A process group: the number of the last collective that each rank issued, None for a member that said nothing."""

    name: str
    issued: Mapping[int, int | None]

    @property
    def furthest(self) -> int:
        return max((n for n in self.issued.values() if n is not None), default=0)

    @property
    def behind(self) -> dict[int, int]:
        """Ranks behind the furthest of the group, by how many collectives."""
        return {r: self.furthest - n for r, n in self.issued.items() if n is not None and n < self.furthest}

    @property
    def silent(self) -> tuple[int, ...]:
        return tuple(sorted(r for r, n in self.issued.items() if n is None))


def groups(analysis: Analysis, run: Run) -> Figure | None:
    """Process group by rank: the last collective of each rank, relative to the furthest rank of its group."""
    rows = _from_dumps(run) or _from_watchdog(run)
    if not rows:
        return None
    rows.sort(key=lambda g: (not g.behind, not g.silent, -max(g.behind.values(), default=0)))
    odd = [g for g in rows if g.behind or g.silent]
    shown = rows[:_GROUPS]
    late = sorted({r for g in rows for r in g.behind})
    silent = sorted({r for g in rows for r in g.silent})
    many = f", {len(odd) or 'none'} of them with a rank that is behind or silent" if len(rows) > 1 else ""
    said = [plural(len(rows), "process group") + many]
    said += (
        [f"behind: {'rank' if len(late) == 1 else 'ranks'} {format_ranks(late)}; the others wait"]
        if late
        else []
    )
    said += [f"silent: {'rank' if len(silent) == 1 else 'ranks'} {format_ranks(silent)}"] if silent else []
    if not odd:
        said.append("every rank has issued the same collective")
    table = tuple(
        (g.name, str(len(g.issued)), str(g.furthest), _behind(g), format_ranks(g.silent) or "none")
        for g in rows
    )
    return Figure(
        "groups", "How far each rank got, by process group",
        "; ".join(said) + ". Last collective of each rank, relative to the furthest rank of its group.",
        ("Process group", "Ranks", "Furthest collective", "Behind", "Silent"), table[:MAX_ROWS], len(table), (1, 2),
        "Process groups, those with a rank behind first", svg=_draw(shown, len(rows), named_ranks(analysis)), wide=True,
    )  # fmt: skip


def _behind(row: _Row) -> str:
    shown = ", ".join(f"rank {r} by {n}" for r, n in sorted(row.behind.items())[:12])
    return shown + (f" and {len(row.behind) - 12} more" if len(row.behind) > 12 else "") or "none"


def _from_dumps(run: Run) -> list[_Row]:
    found = flight_recorder.progress(run)
    if found is None:
        return []
    table, members = found
    rows = []
    for (key,), part in table.group_by("key", maintain_order=True):
        group = members[str(key)]
        issued: dict[int, int | None] = dict.fromkeys(group.members or ())
        issued |= {int(r): int(n) for r, n in part.select("rank", "enqueued").iter_rows() if n is not None}
        if len(issued) > 1:
            rows.append(_Row(_label(group.label, len(issued)), issued))
    return rows


def _label(name: str, ranks: int) -> str:
    """The size first, so that a long name can be cut."""
    return f"{ranks} ranks: {name}"


def _from_watchdog(run: Run) -> list[_Row]:
    rows = []
    missing, _ = watchdog.verdicts(run)
    for (group,), part in watchdog.states(run).group_by("group", maintain_order=True):
        frame = part.with_columns(
            who=pl.coalesce("global_rank", "rank"), at=pl.coalesce("last_enqueued", "timed_out_seq")
        ).drop_nulls(["who", "at"])
        issued: dict[int, int | None] = {int(r): int(n) for r, n in frame.select("who", "at").iter_rows()}
        for item in missing:
            if item.group == group:
                issued |= {r: item.last for r in item.ranks if issued.get(r) is None}
        if len(issued) > 1:
            name = "process group" if group == "?" else f"process group {group}"
            rows.append(_Row(_label(name, len(issued)), issued))
    return rows


def _draw(rows: list[_Row], total: int, named: frozenset[int]) -> str:
    ranks = sorted({r for g in rows for r in g.issued})
    if len(ranks) > _RANKS:
        telling = {r for g in rows for r in (*g.behind, *g.silent)}
        keep = {r for r in ranks if r in telling or r in named}
        ranks = sorted([*keep, *(r for r in ranks if r not in keep)][:_RANKS])
    more = f"and {total - len(rows)} more in the table" if total > len(rows) else ""
    left, row, top = svg.room([more, *(g.name for g in rows)], _NAME), 28.0, 40.0
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
        parts.append(svg.text(left - 10, y + 18, group.name, "t e hot" if group.behind else "t e", _NAME))
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
