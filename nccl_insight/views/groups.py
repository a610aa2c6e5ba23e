"""How far each rank got in each process group: flight-recorder dumps, or the lines of torch's watchdog."""

from collections.abc import Mapping

from nccl_insight.base.data import dataclass
from nccl_insight.facts.progress import flight_recorder, watchdog
from nccl_insight.facts.progress.absent import absences
from nccl_insight.facts.progress.claims import WATCHDOG
from nccl_insight.facts.progress.instances import PAIRS, Instance
from nccl_insight.facts.progress.waitfor import verdict
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
    """Process groups of two ranks and more, those of the guilty first, then those with a rank behind.

    ``by_watchdog``: known from its lines. ``late``: the guilty, which all others wait for, or which called another one.
    """

    groups: tuple[Group, ...]
    by_watchdog: bool
    late: frozenset[int] = frozenset()


def groups(run: Run) -> Groups | None:
    """Process groups by how far their ranks got, None where nothing tells it."""
    dumped = flight_recorder.dumped(run)
    listed = flight_recorder.instances(run)
    numbered = [i for i in listed or watchdog.groups(run) if i.name != watchdog.GLOO]
    rows = [g for i in numbered if len((g := _group(run, i, dumped)).issued) > 1]
    if not rows:
        return None
    late = frozenset(r for item in absences(run) if item.lead.world for r in item.lead.ranks)
    late = late or frozenset(r for odd in watchdog.odd_calls(run) for r in odd.ranks)
    rows.sort(key=lambda g: (late.isdisjoint(g.issued), not g.behind, not g.silent, -max(g.behind.values(), default=0)))
    return Groups(tuple(rows), by_watchdog=not listed, late=late)


def _group(run: Run, group: Instance, dumped: frozenset[int]) -> Group:
    """Where the ranks of a group are by their own words, and those that said nothing of whom others wait for."""
    columns = ("global_rank", "rank", "last_enqueued", "timed_out_seq", "op")
    at = zip(*(group.rows[c].to_list() for c in columns), strict=True)
    # The numbers of sends and receives differ by rank.
    told = (
        (own if place is None else place, seq if last is None else last)
        for place, own, last, seq, op in at
        if op not in PAIRS
    )
    issued: dict[int, int | None] = {r: n for r, n in told if r is not None and n is not None and n >= 0}
    if group.listed:
        return Group(group.name, issued | dict.fromkeys(group.members - dumped - issued.keys()))
    for item in verdict(run, WATCHDOG).claims:
        if item.group == group.name:
            mine = (r for r in item.ranks if not group.world or r in group.members)
            issued |= {r: item.last for r in mine if issued.get(r) is None}
    return Group("" if group.name == "?" else group.name, issued)
