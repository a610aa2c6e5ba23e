"""How far each rank got in each process group: flight-recorder dumps, or the lines of torch's watchdog."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from nccl_insight.facts import flight_recorder, watchdog
from nccl_insight.facts.absent import absences
from nccl_insight.facts.claims import WATCHDOG
from nccl_insight.facts.waitfor import verdict
from nccl_insight.tables.run import Run


@dataclass(frozen=True)
class Group:
    """A process group: the number of the last collective that each rank issued, None for a member that said nothing.

    ``name``: as the inputs call it, empty where they do not.
    """

    name: str
    issued: Mapping[int, int | None]

    @property
    def furthest(self) -> int:
        """The last collective of the rank that got furthest."""
        return max((n for n in self.issued.values() if n is not None), default=0)

    @property
    def behind(self) -> dict[int, int]:
        """Ranks behind the furthest of the group, by how many collectives."""
        most = self.furthest
        return {r: most - n for r, n in self.issued.items() if n is not None and n < most}

    @property
    def silent(self) -> tuple[int, ...]:
        """Members that said nothing."""
        return tuple(sorted(r for r, n in self.issued.items() if n is None))


@dataclass(frozen=True)
class Groups:
    """Process groups of two ranks and more, those with a rank behind first; ``by_watchdog``: known from its lines.

    ``late``: the ranks that all others wait for.
    """

    groups: tuple[Group, ...]
    by_watchdog: bool
    late: frozenset[int] = frozenset()


def groups(run: Run) -> Groups | None:
    """Process groups by how far their ranks got, None where nothing tells it."""
    dumped = _from_dumps(run)
    rows = dumped or _from_watchdog(run)
    if not rows:
        return None
    rows.sort(key=lambda g: (not g.behind, not g.silent, -max(g.behind.values(), default=0)))
    late = frozenset(r for item in absences(run) if item.lead.world for r in item.lead.ranks)
    return Groups(tuple(rows), by_watchdog=not dumped, late=late)


def _from_dumps(run: Run) -> list[Group]:
    found = flight_recorder.progress(run)
    if found is None:
        return []
    table, members = found
    rows = []
    for (key,), part in table.group_by("key", maintain_order=True):
        group = members[str(key)]
        issued: dict[int, int | None] = dict.fromkeys(set(group.members or ()) - flight_recorder.dumped(run))
        issued |= {int(r): int(n) for r, n in part.select("rank", "enqueued").iter_rows() if n is not None}
        if len(issued) > 1:
            rows.append(Group(group.label, issued))
    return rows


def _from_watchdog(run: Run) -> list[Group]:
    rows = []
    claims = verdict(run, WATCHDOG).claims
    for group in watchdog.groups(run):
        frame = group.rows.with_columns(
            who=pl.coalesce("global_rank", "rank"), at=pl.coalesce("last_enqueued", "timed_out_seq")
        ).drop_nulls(["who", "at"])
        issued: dict[int, int | None] = {int(r): int(n) for r, n in frame.select("who", "at").iter_rows()}
        for item in claims:
            if item.group == group.name:
                mine = (r for r in item.ranks if not group.world or r in group.members)
                issued |= {r: item.last for r in mine if issued.get(r) is None}
        if len(issued) > 1:
            rows.append(Group("" if group.name == "?" else group.name, issued))
    return rows
