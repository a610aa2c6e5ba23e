"""Who waits for whom, from the lines of torch's watchdog: the ranks that did not come, and groups that all came to.

A group whose members wait is explained by a member that waits in another group, or by one that is late. Followed
through tensor, pipeline and data-parallel groups, the late ranks are those that others wait for and that wait for
nobody.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import polars as pl

from nccl_insight.base.model import Ref
from nccl_insight.base.units import format_ranks
from nccl_insight.facts.clock import SKEW_S
from nccl_insight.facts.errors import causes
from nccl_insight.facts.identity import identities
from nccl_insight.facts.layout import Grid, grid
from nccl_insight.facts.watchdog import DEFAULT, numbers, odd_calls, refs, states
from nccl_insight.tables.run import Run, fact

# What only a process in the middle of an operation meets.
_TRANSFERS: Final = (
    "ib-completion-retry-exceeded", "ib-completion-local-prot", "ib-completion-error", "ib-completion-flush",
    "ib-local-access-violation", "ofi-request-error", "net-plugin-error",
)  # fmt: skip
_CLOSED: Final = "peer-died"
# Ranks of a host, by whose multiples jobs are large.
_BLOCK: Final = 8
# Where lines name no group, numbers this close count the operations of one.
_CLOSE: Final = 64
_FEW: Final = 16
_MOST_GROUPS: Final = 3
_MOST_RANKS: Final = 1 << 20


@dataclass(frozen=True)
class Missing:
    """Ranks that others wait for in one operation of a process group.

    ``ranks`` are global where ``world`` is true, else those of the group. ``proof``: ``enqueued`` (a rank's own last
    number is below), ``behind`` (it times out in an earlier operation) ``silent`` (it printed nothing), or ``gap``
    (likewise, and its number is all that the log says of it).
    """

    group: str
    seq: int | None
    op: str | None
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    waiting: tuple[int, ...]
    last: int | None
    proof: str
    world: bool
    sure: bool
    first_s: float | None
    ran_ms: int | None
    evidence: tuple[Ref, ...]


@dataclass(frozen=True)
class Stalled:
    """All ranks of a group wait in the same operation, which all have issued."""

    group: str
    seq: int
    op: str | None
    ranks: tuple[int, ...]
    first_s: float | None
    evidence: tuple[Ref, ...]


@fact
def verdicts(run: Run) -> tuple[tuple[Missing, ...], tuple[Stalled, ...]]:
    """Who did not come in each group that timed out, and the groups in which everybody did."""
    missing: list[Missing] = []
    stalled: list[Stalled] = []
    apart = {o.group for o in odd_calls(run)}
    parts = groups(run)
    behind = {g.name: m for g in parts if g.comparable and (m := _behind(run, g)) is not None}
    missing.extend(behind.values())
    missing.extend(
        _late(run, [g for g in parts if g.name not in behind], {r for m in missing if m.world for r in m.ranks})
    )
    late = {(m.group, r) for m in missing for r in m.waiting}
    for group in parts:
        if group.complete and group.name not in apart and not late & {(group.name, r) for r in group.entered}:
            stalled.append(_stalled(group))
    return tuple(missing), tuple(stalled)


# Between two ranks: the numbers of a group's sends and receives differ by rank.
_PAIRS: Final = ("SEND", "RECV", "COALESCED")


@dataclass(frozen=True)
class Instance:
    """One process group: its rows of the watchdog, and its members in the job as far as they are known.

    ``world``: ranks are those of the job. ``entered``: members that time out in its oldest collective, or issued it.
    ``comparable``: the rows are of one group, so its numbers can be compared. ``whole``: it has no other members.
    """

    name: str
    rows: pl.DataFrame
    members: frozenset[int]
    world: bool
    comparable: bool
    whole: bool = True

    @cached_property
    def waits(self) -> pl.DataFrame:
        """The rows of its collectives that timed out."""
        pairs = pl.col("op").is_in(list(_PAIRS)).fill_null(False)
        return self.rows.filter(pl.col("timed_out_seq").is_not_null() & ~pairs)

    @cached_property
    def low(self) -> int | None:
        """The number of its oldest collective that timed out."""
        low = self.waits["timed_out_seq"].min()
        return low if isinstance(low, int) else None

    @cached_property
    def entered(self) -> frozenset[int]:
        """The members known to have issued its oldest collective."""
        if self.low is None:
            return frozenset()
        reached = (pl.col("timed_out_seq") >= self.low) | (pl.col("last_enqueued") >= self.low)
        return frozenset(numbers(self.rows.filter(reached.fill_null(False)), self.world))

    @property
    def complete(self) -> bool:
        """Whether all members wait in one collective, so that its data does not move."""
        waits = self.waits
        return (
            self.comparable
            and self.whole
            and len(self.members) > 1
            and self.members <= self.entered
            and waits["timed_out_seq"].n_unique() == 1
        )

    @property
    def sound(self) -> bool:
        """Whether half of the members or more came, so that the others are late and not these astray."""
        return len(self.entered & self.members) * 2 >= len(self.members)


@fact
def groups(run: Run) -> tuple[Instance, ...]:
    """The process groups that the watchdog's lines speak of.

    Groups of one kind have one number in old lines; they are told apart by where their members are in the job.
    """
    return tuple(_groups(run))


def _groups(run: Run) -> Iterator[Instance]:
    known = identities(run)
    placed = states(run).with_columns(
        global_rank=pl.coalesce(
            "global_rank", pl.col("input_id").replace_strict(known.rank_of_input, default=None, return_dtype=pl.Int32)
        )
    )
    # The line with the operation may not name its group, which another one of the rank does.
    named = placed.filter(pl.col("group") != "?").select("rank", "timed_out_seq").drop_nulls().unique()
    unnamed = placed.filter(pl.col("group") == "?").join(named, on=["rank", "timed_out_seq"], how="anti")
    placed = pl.concat([placed.filter(pl.col("group") != "?"), unnamed])
    kind = pl.col("group").str.replace(r" \(.*$", "")
    kinds = placed.with_columns(kind=kind).partition_by("kind", maintain_order=True)
    fits = _fitting(run, {str(rows["kind"][0]): rows for rows in kinds})
    for rows in kinds:
        how = fits.get(str(rows["kind"][0]))
        for part in rows.drop("kind").partition_by("group", maintain_order=True):
            yield from _split(run, part, how)


def _fitting(run: Run, kinds: Mapping[str, pl.DataFrame]) -> Mapping[str, Grid | None]:
    """How the groups of each kind lie in the job. Of a job whose size no line tells, the smallest size that all fit."""
    known = identities(run)
    pairs = {
        name: list(rows.select("global_rank", "rank").drop_nulls().iter_rows())
        for name, rows in kinds.items()
        if name not in (DEFAULT, "?")
    }
    ranks = [int(r) for rows in kinds.values() for r in rows["global_rank"].drop_nulls()]
    most = max((*ranks, *known.host_of_rank), default=-1) + 1
    # The last rank may be the silent one: jobs of odd sizes are rare.
    sizes = {most + most % 2, most + -most % _BLOCK} if pairs else {most}
    worlds = (known.world,) if known.world >= most > 0 else sorted(sizes)
    found: list[dict[str, Grid | None]] = [
        {
            DEFAULT: Grid(1, world, only=known.world > 0 or world % 2 == 0),
            **{name: grid(told, world) for name, told in pairs.items()},
        }
        for world in worlds
        if most > 1
    ]
    return max(found, key=lambda f: sum(len(pairs[n]) for n in pairs if f[n] is not None), default={})


def _split(run: Run, rows: pl.DataFrame, how: Grid | None) -> Iterator[Instance]:
    """The groups among the rows of one name."""
    group = str(rows["group"][0])
    tagged = rows["global_rank"].null_count() == 0
    same = bool((rows["rank"] == rows["global_rank"]).all()) if tagged else True
    world = group == DEFAULT or tagged or (group == "?" and same)
    twice = rows["rank"].drop_nulls().len() > rows["rank"].drop_nulls().n_unique()
    if group == "?" or not tagged or how is None:
        told = _of_group(run, rows) if world and group not in (DEFAULT, "?") else frozenset()
        if group in (DEFAULT, "?") and world:
            told = frozenset(identities(run).host_of_rank)
            told = told if len(told) == identities(run).world else frozenset()
        seqs = rows["timed_out_seq"].drop_nulls().sort()
        # Torch before 2.1 prints no sizes; its jobs hardly ever have several groups.
        alike = rows["op"].drop_nulls().n_unique() == 1 and rows["numel"].drop_nulls().is_empty()
        apart = group == "?" and not alike and seqs.len() > 0 and int(seqs[-1]) - int(seqs[0]) > _CLOSE
        one = not twice and not apart and (group != "?" or same)
        told = frozenset() if apart else told
        yield Instance(group, rows, told, tagged or (world and not apart), one)
        return
    members = {int(r): how.members(int(r)) for r in rows["global_rank"]}
    number = {own: index for index, own in enumerate(dict.fromkeys(members.values()))}
    of = pl.col("global_rank").replace_strict({r: number[own] for r, own in members.items()})
    parts = rows.with_columns(of=of).partition_by("of", maintain_order=True, include_key=False)
    for own, part in zip(dict.fromkeys(members.values()), parts, strict=True):
        name = group if len(parts) == 1 else f"{group} of ranks {format_ranks(sorted(own))}"
        yield Instance(name, part, own, True, True, how.only and identities(run).world > 0)


def timed_out(run: Run) -> frozenset[int]:
    """The ranks of the job that timed out in any group."""
    return frozenset(states(run).drop_nulls("timed_out_seq")["global_rank"].drop_nulls().to_list())


def _behind(run: Run, group: Instance) -> Missing | None:
    """The ranks of a group that time out in an earlier collective than the others, or never issued theirs."""
    rows, waits, low = group.rows, group.waits, group.low
    high = waits["timed_out_seq"].max()
    if low is None or not isinstance(high, int):
        return None
    never = rows.filter(pl.col("last_enqueued").is_not_null() & (pl.col("last_enqueued") < low))
    never = never.filter(pl.col("timed_out_seq").is_null())
    if never.height and never.height < rows.height:
        return _missing(run, group.name, low, waits, never, "enqueued", group.world, True, never["last_enqueued"].max())
    unnamed = group.name == "?" and waits.filter(pl.col("op").is_not_null()).height == 0
    if high == low or unnamed:
        return None
    behind = waits.filter(pl.col("timed_out_seq") == low)
    ahead = waits.filter(pl.col("timed_out_seq") > low)
    # Where the ranks behind have issued what the others wait in, all wait for the older operation of somebody.
    issued = behind["last_enqueued"].drop_nulls()
    lowest = issued.min() if issued.len() else None
    caught_up = isinstance(lowest, int) and lowest >= high and ahead.height * 2 <= waits.height
    if behind.height * 2 > waits.height or caught_up:
        return None
    seq = ahead["timed_out_seq"].min()
    return _missing(
        run, group.name, int(seq) if isinstance(seq, int) else high, ahead, behind, "behind", group.world,
        group.name != "?", low,
    )  # fmt: skip


def _late(run: Run, parts: Sequence[Instance], behind: set[int]) -> list[Missing]:
    """The ranks that did not come to their groups and do not wait for anybody in another one.

    Every group that waits is explained by a member that waits elsewhere, or by one that is late. A rank that waits
    where hardly anybody else came is astray, and no rank is excused by that. ``behind`` are known to be late.
    """
    placed = [g for g in parts if g.world]
    waiting = {r for g in placed for r in numbers(g.rows.filter(pl.col("timed_out_seq").is_not_null()), True)}
    astray = {r for g in placed if g.members and not g.sound for r in g.entered}
    for held in (waiting, waiting - astray) if astray else (waiting,):
        found = list(_explained(run, placed, waiting, set(held), behind))
        if found:
            return found
    return []


def _explained(
    run: Run, placed: Sequence[Instance], waiting: set[int], held: set[int], behind: set[int]
) -> Iterator[Missing]:
    """The fewest ranks that explain why each group waits, where ``held`` are late only because they wait themselves."""
    needs = [g for g in placed if g.members and g.sound and g.low is not None and g.members - g.entered]
    absent = {r for g in needs for r in g.members - g.entered} - held
    began = [float(t) for g in needs for t in g.waits["time_s"].drop_nulls()]
    held |= _came(run, absent, min(began, default=None))
    alone = [g for g in needs if not (g.members - g.entered) & held]
    late = {r for g in alone if len(g.members - g.entered) == 1 for r in g.members - g.entered}
    if behind:
        late, alone = behind, [g for g in needs if g.members - g.entered <= behind]
    known = identities(run)
    present = set(known.host_of_rank) | set(known.rank_of_input.values())
    for group in alone:
        left = group.members - group.entered
        if not left & late and _believed(set(left), set(group.entered), present):
            late |= left
    if not late and not alone and not behind:
        yield from _left_out(run, placed, waiting, present)
        return
    if not late or (len(late) > 1 and not _believed(late, waiting, present)):
        return
    told = [g for g in alone if g.members - g.entered <= late]
    for g in sorted(told, key=lambda g: (len(g.members), g.name))[:_MOST_GROUPS]:
        yield _silent(run, g, tuple(sorted(g.members - g.entered)), present)


def _of_group(run: Run, rows: pl.DataFrame) -> frozenset[int]:
    """The ranks of the job that make up a process group: the communicator in which all that timed out have the numbers
    that the group gives them; empty where none or several fit, or one is not wholly in the log."""
    pairs = rows.select("global_rank", "rank").drop_nulls().unique()
    numbers = {int(g): int(r) for g, r in pairs.iter_rows()}
    if len(numbers) < 2:
        return frozenset()
    places = _places(run)
    first, *others = (places.get(pair, frozenset()) for pair in numbers.items())
    found = first.intersection(*others)
    return next(iter(found)) if len(found) == 1 else frozenset()


@fact
def _places(run: Run) -> dict[tuple[int, int], frozenset[frozenset[int]]]:
    """The ranks of the job in each smaller communicator that is wholly in the log, by each of its members: rank of the
    job, and number in the communicator."""
    known = identities(run)
    ranks = run.table("ranks").select("comm_id", "rank", "nranks", "host", "pid").drop_nulls()
    found: dict[tuple[int, int], set[frozenset[int]]] = {}
    for (_, size), part in ranks.group_by("comm_id", "nranks", maintain_order=True):
        placed = {
            known.rank_of_process.get((h, int(p)), -1): int(r)
            for r, h, p in part.select("rank", "host", "pid").iter_rows()
        }
        if len(placed) == size and -1 not in placed and len(placed) < known.world:
            members = frozenset(placed)
            for pair in placed.items():
                found.setdefault(pair, set()).add(members)
    return {pair: frozenset(groups) for pair, groups in found.items()}


def _came(run: Run, absent: set[int], first_s: float | None) -> set[int]:
    """Ranks without a line of the watchdog that were not the ones waited for.

    Those whose own transfer failed before the others timed out were in the operation; so were those that lost a
    peer, where another rank explains why. All of them stay where nobody else is left and no transfer failed.
    """
    earliest = _earliest(run)
    last = math.inf if first_s is None else first_s + SKEW_S
    failed, closed = (
        {rank for rank in absent if (rank, kind) in earliest and earliest[rank, kind] <= last} for kind in (False, True)
    )
    return failed | closed if failed or absent - closed else set()


def _left_out(run: Run, placed: Sequence[Instance], waiting: set[int], present: set[int]) -> Iterator[Missing]:
    """The ranks without a time-out where all others have one, and no group tells whom it waits for."""
    named = {r for g in placed for r in g.members}
    world = identities(run).world or max(waiting | present | named, default=-1) + 1
    left = set(range(world)) - waiting if world < _MOST_RANKS else set()
    left -= _came(run, left, None)
    # A rank of which the lines of init know nothing never began; that is another fault.
    unknown = bool(identities(run).world) and not left <= present
    if not left or unknown or not _believed(left, waiting, present):
        return
    rows = pl.concat([g.rows for g in placed]).filter(pl.col("timed_out_seq").is_not_null())
    op, ran = rows["op"].drop_nulls(), rows["ran_ms"].drop_nulls()
    ranks = tuple(sorted(left))
    yield Missing(
        "", None, str(op[0]) if op.n_unique() == 1 else None, ranks, identities(run).hosts(ranks),
        tuple(sorted(waiting)), None, "gap", True, False, _first_s(rows), int(ran[0]) if ran.len() else None,
        refs(rows, 4),
    )  # fmt: skip


def _believed(late: set[int], waiting: set[int], present: set[int]) -> bool:
    """Whether several ranks are late: few, and known to have run, not those whose output was lost or cut short."""
    silent = late - waiting
    few = len(silent) == 1 or silent <= present or len(late) * _FEW <= len(waiting)
    return len(late) * 4 <= len(late | waiting) and few


def _first_s(rows: pl.DataFrame) -> float | None:
    began = rows["time_s"].drop_nulls()
    return float(began.min()) if began.len() else None  # type: ignore[arg-type]


def _stalled(group: Instance) -> Stalled:
    waits, op = group.waits, group.waits["op"].drop_nulls()
    return Stalled(
        group.name,
        group.low or 0,
        str(op[0]) if op.len() else None,
        tuple(sorted(group.entered)),
        _first_s(waits),
        refs(waits, 4),
    )


def _silent(run: Run, group: Instance, ranks: tuple[int, ...], present: set[int]) -> Missing:
    """Members that printed nothing, or that wait where nobody else came."""
    waits, known = group.waits, identities(run)
    op, ran = waits["op"].drop_nulls(), waits["ran_ms"].drop_nulls()
    proof = "silent" if known.world or set(ranks) <= present else "gap"
    return Missing(
        group.name, group.low or 0, str(op[0]) if op.len() else None, ranks, known.hosts(ranks),
        tuple(sorted(group.entered)), None, proof, True, proof == "silent" and len(ranks) * 4 <= len(group.members),
        _first_s(waits), int(ran[0]) if ran.len() else None, refs(waits, 4),
    )  # fmt: skip


@fact
def _earliest(run: Run) -> dict[tuple[int, bool], float]:
    """When each rank first reported that its transfer failed (False), and that it lost a peer (True); before
    everything where a line has no time."""
    rows = causes(run).filter(pl.col("loud") & pl.col("cause").is_in([*_TRANSFERS, _CLOSED]))
    times = pl.col("time_s").cast(pl.Float64).fill_null(-math.inf)
    found = rows.drop_nulls("rank").group_by("rank", closed=pl.col("cause") == _CLOSED).agg(times.min())
    return {(int(rank), bool(closed)): float(at) for rank, closed, at in found.iter_rows()}


def _missing(
    run: Run,
    group: str,
    seq: int,
    waits: pl.DataFrame,
    late: pl.DataFrame,
    proof: str,
    world: bool,
    sure: bool,
    last: object,
) -> Missing:
    known = identities(run)
    ranks = numbers(late, world)
    hosts = tuple(sorted({known.host_of_rank[r] for r in ranks if r in known.host_of_rank})) if world else ()
    op = waits["op"].drop_nulls()
    ran = waits["ran_ms"].drop_nulls()
    return Missing(
        group=group,
        seq=seq,
        op=str(op[0]) if op.len() else None,
        ranks=ranks,
        hosts=hosts,
        waiting=numbers(waits, world),
        last=last if isinstance(last, int) else None,
        proof=proof,
        world=world,
        sure=sure,
        first_s=_first_s(waits),
        ran_ms=int(ran[0]) if ran.len() else None,
        evidence=(*refs(late, 2), *refs(waits, 2)),
    )
