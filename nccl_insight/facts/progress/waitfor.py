"""Who waits for whom: the ranks that did not come, groups that all came to, and orders that cross.

Torch's watchdog and barriers, Flight Recorder dumps, call logs, RAS and Inspector tell where ranks stand in groups. A
group whose members wait is explained by a member that waits in another group, or by one that is late. Followed through
tensor, pipeline and data-parallel groups, the late ranks are those that others wait for and that wait for nobody.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Set
from functools import cached_property
from itertools import takewhile
from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass, replace
from nccl_insight.base.grouping import grouped
from nccl_insight.base.model import Confidence, Ref
from nccl_insight.base.natures import names
from nccl_insight.base.units import rank_words
from nccl_insight.facts.progress import drained, flight_recorder, watchdog
from nccl_insight.facts.progress.calls import unmatched, waits_for
from nccl_insight.facts.progress.claims import CALLS, COUNTED, DUMPS, RAS, SOURCES, UNSEEN, WATCHDOG, Claim, worded
from nccl_insight.facts.progress.instances import UNNAMED, Instance, earliest
from nccl_insight.facts.progress.tallies import counted
from nccl_insight.facts.progress.witnesses import lost
from nccl_insight.facts.said.clock import SKEW_S
from nccl_insight.facts.said.errors import causes
from nccl_insight.facts.setup.settings import refs
from nccl_insight.facts.who.members import completed
from nccl_insight.loading.assemble.places import places
from nccl_insight.tables.normalise.ends import GONE
from nccl_insight.tables.run import Run, fact

_FEW: Final = 16
_PAIR: Final = 2
# Ranks by which jobs grow.
_HOST: Final = 4
_MOST_GROUPS: Final = 3
_MOST_RANKS: Final = 1 << 20


@dataclass(frozen=True)
class Stalled:
    """All ranks of a group that are known wait in the same operation, which all have issued.

    ``started``: dumps tell that it runs on the GPUs of all. ``whole``: the group has no other members.
    """

    group: str
    seq: int
    op: str
    ranks: tuple[int, ...]
    started: bool
    whole: bool
    first_s: float | None
    evidence: tuple[Ref, ...]


@dataclass(frozen=True)
class Crossed:
    """Ranks that wait in an operation of a group while other members wait, each for the other, in one of another."""

    ranks: tuple[int, ...]
    others: tuple[int, ...]
    where: str
    elsewhere: str
    first_s: float | None
    evidence: tuple[Ref, ...]


@dataclass(frozen=True)
class Verdict:
    """What one source says: the ranks that others wait for, groups that stand still, and operations in another order.

    ``waiting``: all ranks that wait. ``held``: also those lacking in pairs who may wait for each other.
    """

    claims: tuple[Claim, ...] = ()
    stalled: tuple[Stalled, ...] = ()
    crossed: tuple[Crossed, ...] = ()
    waiting: frozenset[int] = frozenset()
    held: frozenset[int] = frozenset()


@fact
def verdict(run: Run, source: str) -> Verdict:
    """The verdict of one source. Who waits by better ones is not who others wait for."""
    if source == DUMPS:
        lines, dumped = verdict(run, WATCHDOG).waiting, flight_recorder.dumped(run)
        graph = _of_dumps(run, lines - dumped)
        found, all_gave_up = graph.verdict(), watchdog.processes(run).height >= len(graph.every)
        # Where several wait by their lines and for nobody by their dumps, these are of another moment.
        before = (dumped if all_gave_up else lines & dumped) - found.waiting
        claims = (c for c in found.claims if len(before) < 2 or before.isdisjoint(c.ranks))
        return replace(found, claims=tuple(claims))
    pairs: tuple[tuple[int, int], ...] = ()
    if source == WATCHDOG:
        ranks = places(run)
        dumps = set(run.table("flight_recorder")["input_id"].to_list())
        own = (r for i, r in ranks.rank_of_input.items() if i not in dumps)
        known = frozenset({*ranks.ranks, *own}) | ended_ranks(run) | watchdog.within(run)
        every = max(watchdog.least_world(run), ranks.world, 1 + max(known, default=-1))
        # Of whom the end may be lost nothing is known.
        known -= {r for i in watchdog.uneven(run) for r in ranks.on((ranks.host_of_input.get(i, ""),))}
        # As many files as ranks: nobody's output is lost. Two may be of any two.
        if len(watchdog.alike(run, watchdog.states(run)["input_id"])) == every > 2:
            known |= frozenset(range(every))
        parts, elsewhere = watchdog.groups(run), frozenset[int]()
    else:
        parts, known = counted(run, source), frozenset()
        better = takewhile(lambda s: s != source, SOURCES) if parts else ()
        elsewhere = frozenset(r for s in better for r in verdict(run, s).waiting)
        rows = unmatched(run).iter_rows(named=True) if source == CALLS else ()
        pairs = tuple(filter(None, (waits_for(run, row) for row in rows)))
    return _Graph(run, source, parts, pairs, known, elsewhere).verdict()


def _of_dumps(run: Run, elsewhere: frozenset[int]) -> "_Graph":
    # In a pair with itself: its partner came.
    here = ((r, r) for r in flight_recorder.in_transfer(run))
    pairs = (*((p.waits, p.missing) for p in flight_recorder.unpaired(run)), *here)
    parts = flight_recorder.instances(run)
    return _Graph(run, DUMPS, parts, pairs, flight_recorder.dumped(run), elsewhere)


@fact
def behind_data(run: Run) -> frozenset[int]:
    """The ranks that by their dumps wait, themselves or through others, for data that does not move."""
    waits = defaultdict[int, list[list[int]]](list)
    for group in flight_recorder.instances(run):
        inside = [*group.ranks_inside]
        for rank in group.lacking:
            waits[rank].append(inside)
    for pair in flight_recorder.unpaired(run):
        waits[pair.missing].append([pair.waits])
    ahead = [r for p in flight_recorder.stuck(run) for r in (p.src, p.dst)]
    ahead += [r for s in verdict(run, DUMPS).stalled for r in s.ranks]
    found = set[int]()
    while ahead:
        found.add(rank := ahead.pop())
        for inside in waits.pop(rank, ()):
            ahead += inside
            inside.clear()  # who waits in a group is asked once, whoever lacks there
    return frozenset(found)


def waiting(run: Run) -> frozenset[int]:
    """All ranks that wait for others, by any source."""
    return frozenset().union(*(verdict(run, source).waiting for source in SOURCES))


@dataclass(frozen=True)
class _Graph:
    """The groups of one source; ``pairs``: who waits in a send or receive for whom; ``known``: ranks that spoke.

    ``elsewhere``: ranks of which another source says that they wait.
    """

    run: Run
    source: str
    groups: tuple[Instance, ...]
    pairs: tuple[tuple[int, int], ...]
    known: frozenset[int]
    elsewhere: frozenset[int]

    @cached_property
    def placed(self) -> tuple[Instance, ...]:
        """The groups whose ranks are those of the job."""
        return tuple(g for g in self.groups if g.world)

    @cached_property
    def waiting(self) -> frozenset[int]:
        """The ranks of the job that wait for others, in a collective, a send or a receive."""
        behind = {r for g in self.placed if g.comparable for r in g.ranks_behind}
        found = {r for g in self.placed for r in (g.ranks_inside if g.listed else g.standing)}
        unplaced = (
            g.rows.drop_nulls(["timed_out_seq", "global_rank"])["global_rank"] for g in self.groups if not g.world
        )
        found = (found - behind).union(*(rows.to_list() for rows in unplaced))
        return frozenset(found | {waits for waits, _ in self.pairs} | self.elsewhere)

    @cached_property
    def odd(self) -> frozenset[str]:
        """The groups in which ranks call something else than the others, which holds all of them up."""
        return frozenset(o.group for o in watchdog.odd_calls(self.run) if self.source == WATCHDOG)

    @cached_property
    def by_dumps(self) -> frozenset[int]:
        """The ranks that wait by their own dumps, where another source is asked."""
        return _of_dumps(self.run, frozenset()).waiting if self.source == WATCHDOG else frozenset()

    @cached_property
    def issued_by_dumps(self) -> frozenset[int]:
        """The ranks whose dumps list what others wait in by the lines; these do not count what nobody has to await."""
        if self.source != WATCHDOG:
            return frozenset()
        low = min((g.low for g in self.placed if g.name == watchdog.DEFAULT and g.low is not None), default=None)
        every = max(
            (g for g in flight_recorder.instances(self.run) if g.world), key=lambda g: len(g.members), default=None
        )
        if low is None or every is None or not every.members >= flight_recorder.dumped(self.run):
            return frozenset()
        return every.ranks(every.rows.filter(pl.col("last_enqueued") >= low))

    def verdict(self) -> Verdict:
        claims = tuple(self._claims())
        crossed = () if (claims and self.source != RAS) or self.odd else tuple(self._crossed())
        # Where orders cross, one of which RAS counts fewer may wait in what it does not count.
        claims = () if crossed else claims
        # By the lines alone nobody knows what runs: behind what a late rank holds up, nothing does.
        none = crossed or (claims and self.source == WATCHDOG)
        stalled = () if none else self._stalled({(c.group, r) for c in claims for r in c.waiting})
        unmet = {r for _, r in self.pairs} - self.waiting
        return Verdict(claims, stalled, crossed, self.waiting, self.waiting | (unmet - self._unexcused(unmet)))

    def _stalled(self, late: set[tuple[str, int]]) -> tuple[Stalled, ...]:
        """The groups in which all wait, but for those in which ranks wait for a late one (``late``, with the group)."""
        # Where no line tells how many ranks the job has, all that are numbered have to wait, and fill their hosts.
        count = len(self.waiting)
        every = self.source == DUMPS or (self.waiting == set(range(count)) and (count == 2 or count % 4 == 0))
        free = [g for g in self.groups if g.complete and (g.whole or every) and g.name not in self.odd]
        free = [g for g in free if self._free(g) and not late & {(g.name, r) for r in g.entered}]
        if not free and self.source == DUMPS:
            return tuple(_stuck(p) for p in flight_recorder.stuck(self.run))
        return tuple(_stalled(g) for g in free if g.whole) or tuple(_stalled(g) for g in free)

    def _free(self, group: Instance) -> bool:
        """Whether its operation runs, or stands behind none that others did not come to, and behind no transfer."""
        if group.listed and bool(group.waits["started"].all()):
            return True
        here = group.entered
        return not any(g.paired & here or (g.entered & here and g.lacking - here) for g in self.placed)

    def _claims(self) -> Iterator[Claim]:
        for group in self.groups:
            if group.comparable and not group.world:
                yield from self._own_words(group, group.ranks_behind, group.ranks_never)
        behind, never = self._by_numbers()
        outside = {r for g in self.placed for r in g.outside} - self.waiting
        if behind or never:
            yield from self._told(behind, never)
        elif outside:
            yield from (self._claim(g, outside, "not-entered") for g in self.placed if g.outside & outside)
        elif self.source in (DUMPS, WATCHDOG):
            yield from self._silent()

    def _by_numbers(self) -> tuple[set[int], set[int]]:
        """The ranks that do not finish, and those that never issued, what others wait in, by numbers."""
        if self.source == CALLS and (len(self.every) > 2 or drained.late(self.run) is not None):
            return set(), set(self.replayed)
        placed = [g for g in self.placed if g.comparable]
        behind = {r for g in placed if g.name not in self.differs for r in g.ranks_behind}
        fewer = {r for g in placed for r in g.ranks_never} - behind
        never = self._alone(fewer) - self.waiting - ((self.by_dumps | self.issued_by_dumps) if fewer else frozenset())
        apart = {r for r in never if self._apart(r, never)}
        never = self._unexcused(never) - apart or (set() if apart else never)
        return behind, never

    @cached_property
    def differs(self) -> frozenset[str]:
        """The groups in which somebody called something else under a number that others wait in: who ends it alone."""
        found = flight_recorder.mismatches(self.run) if self.source == DUMPS else ()
        return frozenset(m.group.label for m in found)

    @cached_property
    def replayed(self) -> frozenset[int]:
        """The ranks that do not wait and did not come, by what runs of the last calls of a log."""
        return (drained.late(self.run) if self.source == CALLS else None) or frozenset()

    def _told(self, behind: set[int], never: set[int]) -> Iterator[Claim]:
        own = [c for group in self.placed for c in self._own_words(group, behind, never)]
        # Of ranks that the report of another one names, others may be late, for which these wait.
        unsure = self._hearsay(never)
        yield from (replace(c, world=False, hosts=(), confidence=Confidence.LOW) if unsure else c for c in own)
        told, late = {c.group for c in own}, {*behind, *never}
        # What a source counts it says itself; only torch's lines and dumps can be silent of a rank.
        torch = self.placed if self.source in (DUMPS, WATCHDOG) and not unsure else ()
        needs = [g for g in torch if g.lacking and g.lacking <= late and g.sound and g.name not in told]
        yield from (self._claim(g, late, self._silence(late)) for g in needs[:_MOST_GROUPS])

    def _alone(self, fewer: set[int]) -> set[int]:
        """Those that no other rank which also counts less may wait with, where another source says that some wait."""
        if not fewer & self.elsewhere or not all(g.proof in COUNTED for g in self.placed):
            return fewer
        mates = ((g, g.members & fewer - g.ranks_never) for g in self.placed)
        return fewer - {r for g, here in mates if len(here) > 1 for r in here}

    def _hearsay(self, late: set[int]) -> bool:
        """Whether only reports of other ranks call these late, which may wait for each other, or for silent ones."""
        lines = watchdog.reported(self.run) if self.source == WATCHDOG else frozenset()
        fewer = ((g, g.never.select("input_id", "line").iter_rows()) for g in self.placed if g.ranks_never)
        where = [g for g, rows in fewer if not lines.isdisjoint(rows)]
        if not late & {r for g in where for r in g.ranks_never}:
            return False
        told = self.waiting | {r for g in where for r in g.members}
        seen = {r for g in self.placed for r in g.members | g.ranks(g.rows)}
        every = range(max(places(self.run).world, max(seen, default=-1) + 1))
        return len(late) > 1 or len(told | late) * 2 < len(every)

    def _unexcused(self, late: set[int]) -> set[int]:
        """Those of several late ranks that wait nowhere: in each of their groups that another rank waits in, or is
        late, they have issued less. Where all members issued as much, they may all stand in it behind one of them."""
        if len(late) < 2 or not all(g.proof in COUNTED for g in self.placed):
            return late
        never = grouped((group.name, group.ranks_never) for group in self.placed)
        less = {name: frozenset[int]().union(*ranks) for name, ranks in never.items()}
        stuck = self.waiting | late
        return late - {r for g in self.placed for r in (g.members & late) - less[g.name] if g.members & stuck - {r}}

    def _apart(self, late: int, never: Set[int]) -> bool:
        """Whether a rank that issued fewer operations may wait before it came to them, in one that nobody counts, for
        one of those that went on, or for another one that does not wait."""
        ahead = {r for g in self.placed if late in g.ranks_never for r in g.ranks_inside}
        hidden = (g.members for g in self.placed if g.proof in COUNTED and g.rows["op"].drop_nulls().is_empty())
        return any(late in who and (len(who & ahead) == 1 or who - self.waiting - never) for who in hidden)

    def _own_words(self, group: Instance, behind: Iterable[int], never: Iterable[int]) -> Iterator[Claim]:
        """What the numbers of ranks themselves say: they have not issued, or do not finish, what others wait in."""
        late, all_late = group.ranks_behind & set(behind), {*behind, *never}
        own = group.ranks_never & set(never)
        if own and (group.comparable or group.proof not in COUNTED or self.replayed):
            # Several ranks with fewer may wait for each other; all may wait for a process that is gone.
            unsure = group.proof in COUNTED and not self.replayed and self._unexcused(all_late) != all_late
            unsure |= self.source == RAS and not {r for r, dead in lost(self.run).items() if dead} <= all_late
            yield self._claim(group, all_late, "counts" if unsure else group.proof, group.never)
        elif late:
            yield self._claim(group, all_late, "lagging" if group.listed else "behind", group.behind)

    def _silent(self) -> Iterator[Claim]:
        """The ranks that say nothing, did not come to their groups and do not wait for anybody in another one.

        Every group that waits is explained by a member that waits elsewhere, or by one that is late. A rank that waits
        where hardly anybody else came is astray, and that excuses no single rank; several call in another order.
        """
        if (self.source == DUMPS and len(self.known) < 2) or self.odd:
            return
        # Where all members of a group wait in one operation, the others wait for it, and nobody has to be late.
        lone = [] if self.still else [g for g in self.placed if g.members and not g.sound]
        # Whom others wait for in a transfer their lines do not tell; it may be what holds up the rest of such a group.
        apart = {r for g in self.placed for r in g.standing} - {r for g in self.placed for r in g.ranks_inside}
        astray = {r for g in lone if not g.members & apart for r in g.entered}
        for held in dict.fromkeys((self.waiting | self.by_dumps, self.waiting, self.waiting - astray)):
            if found := list(self._explained(set(held))):
                yield from (c for c in found if len(self.waiting.intersection(c.ranks)) < 2)
                return

    def _explained(self, held: set[int]) -> Iterator[Claim]:
        """The fewest ranks that explain why each group waits; ``held`` are late only because they wait themselves."""
        needs = [g for g in self.placed if g.sound and g.lacking]
        held = held | self._seen(needs, held)
        alone = [g for g in needs if not g.lacking & held]
        # In a larger group others may wait elsewhere, less likely where nearly all of a smaller one came.
        sure = [g for g in alone if not g.larger or len(g.entered) > 2 * len(g.lacking)]
        late = self._fewest(sure, held) or self._fewest(alone, held)
        if self.source == DUMPS:
            # Its dump says itself what it issued; or each process gave up itself; or all wait where operations differ.
            all_gave_up = watchdog.processes(self.run).height >= len(self.every)
            if late & flight_recorder.dumped(self.run) or all_gave_up or self.differs:
                return
        if late and self._only(late, held, needs):
            yield from self._blamed(late, held, alone)
        elif not late and not alone and self.source == WATCHDOG:
            yield from self._left_out(held)

    def _seen(self, needs: Iterable[Instance], held: Set[int]) -> set[int]:
        """The ranks lacking in groups of which lines tell that they came."""
        if self.source != WATCHDOG:
            return set()
        first_s = min(filter(None, (g.first_s for g in needs)), default=None)
        return self._came({r for g in needs for r in g.lacking} - held, first_s)

    def _blamed(self, late: set[int], held: Set[int], alone: Iterable[Instance]) -> Iterator[Claim]:
        """The claims that these ranks are late, by the groups that lack nobody else."""
        told = sorted((g for g in alone if self._left(g) <= late), key=lambda g: (len(g.members), g.name))
        claims = (self._claim(g, late, self._silence(late)) for g in told[:_MOST_GROUPS])
        # Another rank that says nothing, and is known no less, may be late as well.
        silent = self.every - late - held if self.source == WATCHDOG else set()
        also = silent & self.known if late <= self.known else silent
        yield from (replace(c, confidence=Confidence.LOW) if also else c for c in claims)
        if not told:
            yield self._pair_claim(late)

    def _left(self, group: Instance) -> frozenset[int]:
        """Whom the group lacks. Those whose output is not here may wait themselves, for those of which it is."""
        return group.lacking & self.known or group.lacking

    def _fewest(self, alone: Iterable[Instance], held: set[int]) -> set[int]:
        """Of each group that nobody else explains, the one rank that lacks, or all that may be believed to be late."""
        lefts = [(g.entered, self._left(g)) for g in alone]
        late = {r for _, left in lefts if len(left) == 1 for r in left}
        for entered, left in lefts:
            here = left <= self.known or watchdog.whole(self.run, len(left))
            if not left & late and self._believed(set(left), self.waiting if here else entered):
                late |= left
        late = late or {r for _, r in self.pairs if r not in self.known and r not in held}
        return late & self.known or late

    @cached_property
    def every(self) -> frozenset[int]:
        """The ranks that spoke, all members of groups, and those that must be beside them."""
        least = watchdog.least_world(self.run) if self.source == WATCHDOG else 0
        return self.known.union(range(least), *(g.members for g in self.placed))

    @cached_property
    def still(self) -> bool:
        """Whether all members of a group, and no other one is, wait in one operation."""
        return any(g.complete and g.whole for g in self.placed)

    @cached_property
    def own_files(self) -> int:
        """How many inputs tell of the groups where each rank that waits has one, so that others may be lost, else 0."""
        if self.source == DUMPS:
            return len(self.known)  # each dump is of one rank
        told = len({i for g in self.placed for i in g.rows["input_id"]})
        return told if told >= len(self.waiting) else 0

    def _only(self, late: set[int], held: set[int], needs: Iterable[Instance]) -> bool:
        """Whether no other rank than these may be the cause: nothing is known of them, and another one has not issued
        what others wait in, and waits in what they all have issued, too. Who runs their program has issued both. Nor
        do they alone say nothing where an input ends among the time-outs."""
        rest = self.every - late
        # Of several ranks without a dump each may be the one.
        if (self.source == DUMPS and rest - self.known - held) or not (
            len(late) == 1 or self._believed(late, self.waiting)
        ):
            return False
        lines, rest = self.source == WATCHDOG, rest - self.waiting
        cut = watchdog.cut_short(self.run) if lines and rest else frozenset[int]()
        # Where several wait for one alone, and their own input is whole, it is late, or its output is not here.
        lone = (g for g in needs if g.lacking == late and len(g.entered) > _PAIR)
        if late <= self.known or (cut and all(cut.intersection(g.rows["input_id"]) for g in lone)):
            return late <= self.known
        # Of all that print into one log one alone does not give up.
        alone = lines and not rest and not self.own_files
        return alone or not self._excused(late, needs)

    def _excused(self, late: set[int], needs: Iterable[Instance]) -> bool:
        """Whether another rank has not issued what others wait in, and waits in what they all have issued, too."""
        stands = [g for g in self.placed if g.low is not None]
        # Who waits for one that is late, in a transfer or in a group of others, has issued no more for that.
        excused = late.union(w for w, r in self.pairs if r in late)
        mine = [g for g in needs if g.lacking & excused]
        lacks = (
            (g, {r for r in left if not any(r in h.entered and not g.entered <= h.entered for h in mine)})
            for g in needs if (left := (g.lacking - excused) & self.waiting)
        )  # fmt: skip
        return any(here & other.entered and g.entered <= other.entered for g, here in lacks for other in stands)

    def _silence(self, late: set[int]) -> str:
        if self.source == DUMPS:
            return "undumped"
        return "silent" if places(self.run).world or late <= self.known else "gap"

    def _came(self, absent: set[int], first_s: float | None) -> set[int]:
        """Ranks without a line of the watchdog that were not the ones waited for.

        Those whose own transfer failed before the others timed out were in the operation; so were those that lost a
        peer, where another rank explains why. All of them stay where nobody else is left and no transfer failed.
        """
        earliest = _earliest(self.run)
        last = math.inf if first_s is None else first_s + SKEW_S
        failed, closed = (
            {rank for rank in absent if (rank, kind) in earliest and earliest[rank, kind] <= last}
            for kind in (False, True)
        )
        return failed | closed if failed or absent - closed else set()

    def _left_out(self, held: set[int]) -> Iterator[Claim]:
        """The ranks without a time-out where all others have one, and no group tells whom it waits for."""
        left, size = self._unheard(held), places(self.run).world
        if not self.placed:
            return
        rows = pl.concat([g.rows for g in self.placed])
        # Where each rank has a file and more than these are silent, the numbers tell not who.
        like = len(watchdog.alike(self.run, rows["input_id"]))
        if self.own_files and len(left) < like - self.own_files and len(self.waiting) > 1:
            return
        one = len(left) == 1
        # A rank of which the lines of init know nothing never began, unless it ended with all; that is another fault.
        began = bool((completed(self.run)["nranks"] == size).any())
        unknown = size > 0 and not left <= self.known and not began
        # How it ended says its launcher, so that its output is not just lost.
        listed = one and left <= ended_ranks(self.run)
        if not left or unknown or not (listed or self._believed(left, self.waiting)):
            return
        # Where a group stands still and each rank has a file of its own, the one without may be lost.
        if self.still and self.own_files and not (one and left <= self.known):
            return
        rows = rows.drop_nulls("timed_out_seq")
        op = rows["op"].drop_nulls()
        claim = self._claim(Instance("", rows, frozenset(), True, True), left, "gap")
        called, sure = str(op[0]) if op.n_unique() == 1 else None, claim.confidence
        # Of several that say nothing while others wait in this and that, some may wait themselves.
        if len(left) > 1 and rows.select("op", "timed_out_seq").n_unique() > 1:
            sure = Confidence.LOW
        yield replace(claim, seq=None, op=called, waiting=tuple(sorted(self.waiting)), confidence=sure)

    def _unheard(self, held: Set[int]) -> set[int]:
        """The ranks of the whole job that neither wait nor came; of those only the known ones, where some are."""
        size = places(self.run).world
        world = size or max(watchdog.least_world(self.run), max(self.waiting | self.every, default=-1) + 1)
        world += not size and world % watchdog.BLOCK == watchdog.BLOCK - 1
        left = set(range(world)) - self.waiting - held if world < _MOST_RANKS else set()
        left -= self._came(left, None)
        return left & self.known or left

    def _believed(self, late: set[int], waiting: frozenset[int]) -> bool:
        """Whether several ranks are late: few, and known to have run, not those whose output was lost or cut short."""
        silent, known = late - waiting, places(self.run)
        # Where most of a job says nothing, its one log was cut among the time-outs.
        torn = len(self.waiting) * 2 < max(known.world, len(self.every))
        torn = torn and not silent <= set(known.rank_of_input.values())
        if len(silent) > 1 and self.source == WATCHDOG and (torn or watchdog.cut_short(self.run)):
            return False
        few = (
            len(silent) == 1
            or silent <= self.known
            or len(late) * _FEW <= len(waiting)
            or (len(silent) == 2 and watchdog.whole(self.run, len(silent)))
        )
        return len(late) * 4 <= len(late | waiting) and (few or self.source == DUMPS)

    def _crossed(self) -> Iterator[Crossed]:
        """Two groups of which each waits for a rank that waits in the other one."""
        needs = [g for g in self.placed if g.comparable and g.between]
        stands = grouped((rank, group) for group in needs for rank in group.ranks_inside)
        # Who stands in several issues one behind another without waiting, and may have issued what it does not tell.
        several = Counter(r for g in self.placed for r in g.standing)
        most = 1 if watchdog.cut_short(self.run) and max(several.values(), default=1) > 1 else 2
        for one in needs:
            for other in {g.name: g for r in one.between for g in stands.get(r, ())}.values():
                there, here = one.between & other.ranks_inside, one.ranks_inside & other.between
                sure = other.sound and (one.listed or all(several[r] < most for r in one.ranks_inside))
                if here and len(here) <= len(there) and sure:
                    (ranks, where, lines), (others, elsewhere, more) = _stands(one, here), _stands(other, there)
                    yield Crossed(ranks, others, where, elsewhere, one.first_s, (*lines, *more))
                    return

    def _claim(self, group: Instance, late: Iterable[int], proof: str, rows: pl.DataFrame | None = None) -> Claim:
        """The claim that ``late`` are waited for in this group; ``rows`` are what they say themselves of it."""
        known, waits = places(self.run), group.inside
        ranks = tuple(sorted(late))
        waiting = tuple(sorted(group.ranks(waits) - set(ranks)))
        seq, last = _numbers(group, proof, rows)
        at = (rows if proof == "lagging" and rows is not None else waits).sort("timed_out_seq")
        there = at.filter(pl.col("timed_out_seq").eq_missing(seq))
        there = there if there.height else at
        op, ran = there["label" if group.listed else "op"].drop_nulls(), there["ran_ms"].drop_nulls()
        own = tuple(sorted(group.ranks(rows))) if rows is not None else ranks
        hosts = known.hosts(ranks) if group.world else ()
        if rows is not None and not hosts and rows.get_column("host", default=None) is not None:
            hosts = tuple(sorted(known.hosts_at(rows, "host")))
        evidence = (*(refs(rows, 2) if rows is not None else ()), *refs(at, 4 if rows is None else 2))
        claim = Claim(
            self.source, proof, ranks, hosts, waiting, self._sure(group, ranks, proof), "", evidence,
            group=group.name, op=str(op[0]) if op.len() else None, seq=seq, last=last, world=group.world,
            first_s=earliest(waits), ran_ms=int(ran[0]) if ran.len() else None,
            comm_id=group.name if self.source in (CALLS, RAS) else None,
        )  # fmt: skip
        said = _said(group, at, own, claim)
        if group.listed or not at["line"].drop_nulls().sum():
            evidence = tuple(Ref(int(i), 0, said) for i in at["input_id"].head(1))
        return replace(claim, said=said, evidence=evidence)

    def _sure(self, group: Instance, ranks: tuple[int, ...], proof: str) -> Confidence:
        sure = dict.fromkeys(("not-issued", "enqueued", "barrier"), True)
        sure |= {"behind": group.name != UNNAMED, "silent": len(ranks) * 4 <= len(group.members)}
        told = len({r for g in self.placed for r in g.ranks(g.rows)})
        # A few numbers that lack among many are those of ranks, not of files that nobody collected.
        low = proof in ("counts", "records") or (proof == "gap" and len(ranks) * 2 > max(told, len(group.entered)))
        # Whose output may just not be here may wait like the others, for a rank that is, or for data that stands.
        heard = proof not in UNSEEN or self.known.issuperset(ranks) or (proof == "undumped" and self._gave_up({*ranks}))
        low |= not heard and (self.own_files > 0 or bool(watchdog.cut_short(self.run)))
        if proof in UNSEEN and self.source == WATCHDOG:
            # The last rank of a job whose size no line tells may be silent, too; of several, the end of some is lost.
            size = 0 if heard or places(self.run).world else max({*self.every, *self.waiting, *ranks}) + 1
            low |= size % (2 if size < _HOST else _HOST) > 0 or len(ranks) > 1
        # Nothing tells a hang from a log that was cut, where nobody says that he waits.
        low |= self.source == CALLS and not self.elsewhere and drained.ends_with(self.run, {*ranks})
        return Confidence.LOW if low else Confidence.HIGH if sure.get(proof) else Confidence.MEDIUM

    def _gave_up(self, late: Set[int]) -> bool:
        """Whether all ranks but these gave up by the lines of logs of which none lacks."""
        told, rows = watchdog.processes(self.run), watchdog.given_up(self.run)
        # A number that stands twice in an input may be that of two processes in two groups.
        if rows["global_rank"].null_count() and rows.height > told.height:
            return False
        each = len(watchdog.alike(self.run, told["input_id"])) == len(self.every)
        return told.height + len(late) == len(self.every) and (each or watchdog.whole(self.run, len(late)))

    def _pair_claim(self, late: set[int]) -> Claim:
        """The claim that ranks without a dump are waited for in sends and receives."""
        waiting, ranks = tuple(sorted({w for w, r in self.pairs if r in late})), tuple(sorted(late))
        given = {"ranks": ranks, "many": len(ranks) > 1, "waiting": waiting, "one": len(waiting) == 1}
        said = worded("undumped-pair", given)
        hosts = places(self.run).hosts(ranks)
        first = tuple(Ref(p.input_id, 0, said) for p in flight_recorder.unpaired(self.run) if p.missing in late)[:1]
        sure = Confidence.MEDIUM if self._gave_up(late) else Confidence.LOW
        return Claim(DUMPS, "undumped", ranks, hosts, waiting, sure, said, first)


def _said(group: Instance, at: pl.DataFrame, ranks: tuple[int, ...], claim: Claim) -> str:
    seq, last, many = claim.seq or 0, claim.last, len(ranks) > 1
    whose = "" if last is None else f" ({'their' if many else 'its'} last: {last})"
    where = f"{_operation(at)} of group {group.name}" if group.listed else ""
    named, wait = group.name not in (watchdog.DEFAULT, UNNAMED), "waits" if len(claim.waiting) == 1 else "wait"
    given = {"ranks": ranks, "many": many, "waiting": claim.waiting, "wait": wait, "where": where, "whose": whose}
    given |= {"seq": seq, "before": max(seq, 1) - 1, "last": last or 0, "op": claim.op}
    given |= {"group": group.name if named else ""}
    return worded(claim.proof, given)


def _numbers(group: Instance, proof: str, rows: pl.DataFrame | None) -> tuple[int | None, int | None]:
    """The operation that others wait in, and the last one of those that ``rows`` are of."""
    waits, reached = group.inside, "timed_out_seq" if proof in ("behind", "lagging") else "last_enqueued"
    last = rows[reached].max() if rows is not None else None
    last = last if isinstance(last, int) and last >= 0 else None
    if proof in COUNTED:
        seq = waits["last_enqueued"].mode().max()
    else:
        seqs = waits["timed_out_seq"]
        seq = (seqs.filter(seqs > last) if proof == "behind" and last is not None else seqs).min()
    return (seq if isinstance(seq, int) else group.low), last


def _operation(rows: pl.DataFrame) -> str:
    """``collective 1,204 (all_reduce 1024 Float)``."""
    return f"collective {rows['timed_out_seq'][0]} ({rows['label'][0]})" if rows.height else "a collective"


def _stands(group: Instance, ranks: Iterable[int]) -> tuple[tuple[int, ...], str, tuple[Ref, ...]]:
    """These ranks, where they stand (``ALLREDUCE 41 of process group 3``), and two of their lines."""
    op, who = group.inside["op"].drop_nulls(), tuple(sorted(ranks))
    where = f"{op[0] if op.len() else 'collective'} {group.low} of {watchdog.group_words(group.name)}"
    return who, where, refs(group.inside.filter(watchdog.WHO.is_in(who)), 2)


def _stalled(group: Instance) -> Stalled:
    waits, op, ranks = group.waits, group.waits["op"].drop_nulls(), tuple(sorted(group.entered))
    started = group.listed and bool(waits["started"].all())
    where = f"{_operation(waits)} of group {group.name}" if group.listed else ""
    evidence = (Ref(int(waits["input_id"][0]), 0, f"{rank_words(ranks)} are in {where}"),) if where else refs(waits, 4)
    called = where or (str(op[0]) if op.len() else "")
    return Stalled(group.name, group.low or 0, called, ranks, started, group.whole, group.first_s, evidence)


def _stuck(pair: flight_recorder.Unpaired) -> Stalled:
    ranks, where = (pair.src, pair.dst), f"send {pair.src} -> {pair.dst}"
    evidence = (Ref(pair.input_id, 0, f"{where} {pair.sizes} open on both sides"),)
    return Stalled(pair.group.label, 0, f"{where} of group {pair.group.label}", ranks, True, True, None, evidence)


@fact
def ended_ranks(run: Run) -> frozenset[int]:
    """The ranks of which a launcher says how they ended: they ran."""
    rows = run.table("errors").filter(pl.col("exit_code").is_not_null()).drop_nulls("rank")
    return frozenset(rows["rank"].to_list())


@fact
def _earliest(run: Run) -> dict[tuple[int, bool], float]:
    """When each rank first reported that its transfer failed (False), and that it lost a peer (True); before
    everything where a line has no time."""
    rows = causes(run).filter(pl.col("loud") & pl.col("cause").is_in([*names("completion", "transfer"), GONE]))
    times = pl.col("time_s").cast(pl.Float64).fill_null(-math.inf)
    found = rows.drop_nulls("rank").group_by("rank", closed=pl.col("cause") == GONE).agg(times.min())
    return {(int(rank), bool(closed)): float(at) for rank, closed, at in found.iter_rows()}
