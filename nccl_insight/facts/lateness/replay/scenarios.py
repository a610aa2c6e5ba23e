"""What could be mended, and what each change would be: ranks and hosts like their peers, transfers like others of their
kind, single steps as the others."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Final, TypeAlias

import numpy as np
import polars as pl

from nccl_insight.base import texts
from nccl_insight.base.bandwidth import BY_TOKENS
from nccl_insight.base.data import dataclass, replace
from nccl_insight.base.grouping import grouped
from nccl_insight.base.units import format_bytes
from nccl_insight.facts.lateness.replay.order import PAUSE_NS
from nccl_insight.facts.lateness.replay.passes import Change, Replay
from nccl_insight.facts.lateness.replay.peers import PLACE, by_lengths, pipelines
from nccl_insight.facts.lateness.replay.timeline import Meeting, Timeline

_MATTERS: Final = 0.004
"""Share of the recorded time below which what a rank, group or step takes more than its peers is not tried."""
_MOST: Final = 12
TRANSFERS: Final = "the transfers"
IDLE: Final = "the idle time"
WORDS: Final = texts.of_file(__file__)
_MORE: Final = 0.03
_SLOWER: Final = 1.25
_FAR: Final = 2.0
_UNEVEN: Final = 1.2
_MOSTLY: Final = 0.8
_STANDS_OUT: Final = 4.0
_MANY: Final = 8
_SPREADS: Final = 4.0
_ALL_STEPS: Final = 0.75
_CLEARLY: Final = 0.5
_LEAST_T: Final = 3.5
_SIGMA: Final = 1.4826
"""Standard deviations in a median absolute deviation of normal values."""
_Slow: TypeAlias = tuple[str, dict[int, float], Callable[[tuple[int, ...]], Change]]
"""What is slow, how much by step, and the change that mends some steps."""


@dataclass(frozen=True)
class Scenario:
    """A change with its name.

    ``kind``: rank, ranks, host, compute, group, pair, rail or step; ``ranks``: who is mended. ``steps``: those that
    hold what is mended, where it is in some of them only; ``cause``: what is slow (transfers, ``idle time``).
    ``took_ns``, ``usual_ns``: a typical transfer and that of the others; ``uneven``: nobody is slow, work wanders.
    """

    kind: str
    ranks: tuple[int, ...]
    change: Change
    group: str | None = None
    steps: tuple[int, ...] = ()
    cause: str = ""
    took_ns: float = 0.0
    usual_ns: float = 0.0
    uneven: bool = False

    @property
    def text(self) -> str:
        """What it changes, in a few words."""
        return texts.filled(WORDS[self.kind]["said"], {"s": self})


def as_peers(rows: pl.DataFrame, who: Sequence[int], alone: bool, steadily: bool = False) -> Change:
    """The nodes of some ranks (indices) as those of the others of their role.

    What most of the peers do not have is left out, unless the ranks are ``alone`` in their roles and are compared with
    ranks that do other work. Ranks that are slower ``steadily`` keep their own lengths where these differ by step.
    """
    own = rows.filter(pl.col("rank").is_in(who))
    peers = rows.filter(~pl.col("rank").is_in(who) & pl.col("role").is_in(own["role"].unique().implode()))
    sizes = peers.group_by("role", "step").agg(of=pl.col("rank").n_unique())
    took = (pl.col("took") / pl.col("long")).median()
    theirs = peers.group_by(PLACE).agg(n=pl.len(), usual=took, pause=pl.col("gap").median())
    joined = own.join(theirs, on=PLACE, how="left", maintain_order="left").join(
        sizes, on=["role", "step"], how="left", maintain_order="left"
    )
    common = (pl.col("n") >= pl.col("of") / 2).fill_null(False)
    extra = pl.lit(0.0) if not alone else pl.col("took") + pl.col("gap")
    known = joined.filter(pl.col("of").is_not_null()).with_columns(pl.col("usual") * pl.col("long"))
    # Where micro-batches are of unequal length, the order of those of others says nothing.
    took, other = (pl.col(c).filter(common).sum().over("rank", "step") for c in ("took", "usual"))
    kept: pl.Expr = pl.when(pl.col("long") != 1).then(pl.col("took") * other / took)
    if steadily:
        own = by_lengths(known.filter(common), "rank").select("rank", "slower").unique()
        known = known.join(own, on="rank", how="left", maintain_order="left")
        kept = pl.coalesce(pl.col("took") / pl.col("slower"), kept)
    known = known.with_columns(usual=pl.coalesce(kept, "usual"))
    usual = pl.col("usual") + pl.col("pause")
    return _nodes(known.select("node", length=pl.when(common).then(usual).otherwise(extra)))


def _nodes(made: pl.DataFrame) -> Change:
    return Change(made["node"].to_numpy().astype(np.int64), made["length"].to_numpy().astype(float))


def _meetings(numbers: Iterable[int], transfers: Iterable[float]) -> Change:
    return Change(meetings=np.array(list(numbers), np.int64), transfers=np.array(list(transfers), float))


def _uneven(line: Timeline, rows: pl.DataFrame, alike: Sequence[str] = PLACE) -> Scenario:
    """Every node of some ranks as it is on average over its role, without pauses that are not usual."""
    n, of = pl.len().over(PLACE), pl.col("rank").n_unique().over("role", "step")
    spread = pl.when(2 * n <= of).then(n / of).otherwise(1.0)  # what few of them have
    pause = pl.min_horizontal("gap", pl.col("gap").median().over(PLACE))
    made = rows.with_columns(length=(pl.col("took").mean().over(alike) + pause) * spread).filter(of > 1)
    ranks = tuple(line.ranks[r] for r in rows["rank"].unique().sort())
    return Scenario("compute", ranks, _nodes(made.select("node", "length")), uneven=True)


def of_ranks(line: Timeline, each: pl.DataFrame, alone: bool, span: float) -> list[Scenario]:
    """Ranks, and all ranks of a host, that take more than their peers (:func:`compared`)."""
    rows = each.drop("usual", "pause", "more")
    more = each.group_by("rank", "role").agg(
        pl.col("more").sum(),
        often=pl.col("usual").filter(pl.col("more") > _MORE * pl.col("usual")).sum() / pl.col("usual").sum(),
    )
    by_step = each.filter(pl.col("step") >= 0).group_by("role", "rank", "step").agg(pl.col("more").sum())
    by_step = by_step.with_columns(off=pl.col("more") - pl.col("more").median().over("role", "step"))

    def mended(who: tuple[int, ...], kind: str = "ranks") -> Scenario:
        steps = _where(by_step, who)
        change = as_peers(rows, who, alone, steadily=not steps)
        return Scenario(kind, tuple(line.ranks[r] for r in who), change, steps=steps)

    excess = dict(more.select("rank", "more").iter_rows())
    suspects = [r for r, x in sorted(excess.items(), key=lambda item: -item[1]) if x > _MATTERS * span][:_MOST]
    wandering, apart = _wandering(more, suspects), _apart(more)
    found = []
    for role in wandering:
        part = rows.filter(pl.col("role") == role)
        suspects = _beyond(suspects, {*part["rank"]}, apart, excess, by_step)
        found.append(_uneven(line, part))
    at = {r: _where(by_step, (r,)) for r in suspects}
    suspects = [r for r in suspects if r in apart and (at[r] or _steady(by_step, r))]
    turns = _takes_turns([at[r] for r in suspects], line.steps)
    suspects = [] if turns else suspects
    found += [mended((r,), "rank") for r in sorted(suspects)]
    found += [mended(who, "host") for who in _late_hosts(line, excess, span)]
    together = {tuple(sorted(suspects)), *(() if turns or wandering else _later_part(more, by_step))}
    return found + [mended(who) for who in sorted(w for w in together if len(w) > 1)]


def _beyond(
    suspects: list[int], among: Set[int], apart: Set[int], excess: Mapping[int, float], by_step: pl.DataFrame
) -> list[int]:
    """The suspects without those of a role whose work wanders (``among``), but for who is late beyond that."""
    first, *others = suspects
    # Whether the first has far more than the next one.
    far = {first} if excess[first] > _SPREADS * max((excess[r] for r in others), default=0.0) else set()
    clear = among & apart if len(among) >= _MANY else among & far
    late = {r for r in clear & {*suspects} if _steady(by_step, r) or (r in far and _where(by_step, (r,)))}
    return [r for r in suspects if r not in among or r in late]


def _late_hosts(line: Timeline, excess: Mapping[int, float], span: float) -> Iterator[tuple[int, ...]]:
    """The ranks of each of several hosts that take more than their peers together."""
    hosts = grouped((host, rank) for rank, host in enumerate(line.hosts) if host is not None)
    for members in hosts.values():
        more = sum(excess.get(r, 0.0) for r in members)
        if min(len(hosts), len(members)) > 1 and more > _MATTERS * span * len(members):
            yield tuple(members)


def _wandering(more: pl.DataFrame, suspects: list[int]) -> list[str]:
    """Roles of which many ranks take more than their peers, each in some steps only."""
    wanders = (
        more.filter(pl.col("rank").is_in(suspects))
        .group_by("role")
        .agg(n=pl.len(), often=pl.col("often").max())
        .join(more.group_by("role").agg(of=pl.len()), on="role")
        .filter((pl.col("n") >= 3) & (pl.col("n") >= pl.col("of") / 2) & (pl.col("often") <= 0.5))
    )
    return list(wanders["role"].sort())


def evenly(line: Timeline, rows: pl.DataFrame) -> list[Scenario]:
    """Per role of three or more ranks: its work spread evenly over the ranks in every step; in a pipeline all of them,
    whose stages handle the same micro-batches one after the other, and these evenly, too."""
    found = [_uneven(line, part) for part in rows.sort("role").partition_by("role", maintain_order=True)]
    found = [scenario for scenario in found if len(scenario.ranks) > 2]
    if len(found) > 1 and any(meeting.pair for meeting in line.groups):
        found.append(_uneven(line, rows, PLACE[:3]))
    return found


def _later_part(more: pl.DataFrame, by_step: pl.DataFrame) -> list[tuple[int, ...]]:
    """Up to half of the ranks of a role that take more than the others, by more than both differ in themselves."""
    found = []
    for part in more.sort("more").partition_by("role", maintain_order=True):
        ranks, values = part["rank"].to_list(), part["more"].to_numpy()
        if len(ranks) < 4:
            continue
        gaps = np.diff(values)
        cut = int(gaps[(len(ranks) - 1) // 2 :].argmax()) + (len(ranks) - 1) // 2 + 1
        late, others = values[cut:], values[:cut]
        if gaps[cut - 1] >= _CLEARLY * (late.mean() - others.mean()) and all(_steady(by_step, r) for r in ranks[cut:]):
            found.append(tuple(sorted(ranks[cut:])))
    return found


def _apart(more: pl.DataFrame) -> set[int]:
    """Ranks that take more than their peers by far more than these differ among each other; all of small roles."""
    middle = pl.col("more").median().over("role")
    off = more.with_columns(off=pl.col("more") - middle, of=pl.len().over("role")).with_columns(
        spread=_SIGMA * pl.col("off").abs().median().over("role")
    )
    return set(off.filter((pl.col("of") < _MANY) | (pl.col("off") > _SPREADS * pl.col("spread")))["rank"])


def _steady(by_step: pl.DataFrame, rank: int) -> bool:
    """Whether a rank takes more than its peers step for step, or only when inputs happen to be long."""
    off = by_step.filter(pl.col("rank") == rank)["off"].to_numpy()
    if off.size < 4:
        return True
    if (off > off.mean() / 2).mean() >= _ALL_STEPS:
        return bool(off.mean() > 0)
    return float(off.mean()) >= _LEAST_T * float(off.std(ddof=1)) / math.sqrt(off.size)


def _takes_turns(steps: list[tuple[int, ...]], of: int) -> bool:
    """Whether nearly every step has another rank that is late in it; of two ranks, not one after the other."""
    named = sorted((step, rank) for rank, part in enumerate(steps) for step in part)
    once = len({step for step, _ in named}) == len(named) >= _ALL_STEPS * of
    changes = sum(one != other for (_, one), (_, other) in itertools.pairwise(named))
    return all(steps) and once and (len(steps) > 2 or 2 * changes > len(named))


def _where(by_step: pl.DataFrame, who: tuple[int, ...]) -> tuple[int, ...]:
    """The few steps that hold what some ranks take more than their peers; none where it is in most of them."""
    own = by_step.filter(pl.col("rank").is_in(who))
    sums = own.group_by("step").agg(pl.col("more").sum()).sort("more", descending=True)
    more = sums["more"].to_numpy()
    total = float(more[more > 0].sum())
    if more.size < 4 or not total:
        return ()
    least = int(np.searchsorted(np.cumsum(np.maximum(more, 0.0)), _MOSTLY * total)) + 1
    high = int((more >= 0.5 * more[least - 1]).sum())
    rest = float(np.median(more[high:])) if high < more.size else 0.0
    # What the others of their roles differ by from each other in a step.
    others = by_step.filter(pl.col("role").is_in(own["role"].unique().implode()) & ~pl.col("rank").is_in(who))
    off = (pl.col("more") - pl.col("more").median().over("role", "step")).abs().median()
    spread = _SIGMA * float(others.select(off).item() or 0.0)
    if high > more.size / 2 or more[high - 1] < max(_STANDS_OUT * max(rest, 0.0), _SPREADS * spread):
        return ()
    return tuple(sorted(sums["step"].head(high).to_list()))


def of_stages(line: Timeline, rows: pl.DataFrame, span: float) -> list[Scenario]:
    """Stages of a pipeline whose ranks compute clearly more than those of the others, with the work shared evenly.

    A stage: ranks of one role at one place of their pipelines, whose ranks can all have one role, where stages take
    turns on them.
    """
    if not any(g.pair for g in line.groups):
        return []
    known = pipelines(line).with_columns(place=pl.int_range(pl.len()).over("first"))
    rows = rows.join(known, on="rank", maintain_order="left")
    rows = rows.with_columns(role=pl.col("role") * len(line.ranks) + pl.col("place"))
    by_rank = rows.group_by("role", "rank").agg(pl.col("took").sum())
    work = by_rank.group_by("role").agg(pl.col("took").median(), n=pl.len()).sort("role")
    total = float((work["took"] * work["n"]).sum())
    mean = total / len(line.ranks)
    found = []
    for role, took, n in work.iter_rows():
        others = (total - took * n) / max(len(line.ranks) - n, 1)
        if took - mean < _MATTERS * span or took < _UNEVEN * others:
            continue
        own = pl.col("role") == role
        ranks = tuple(line.ranks[r] for r in rows.filter(own)["rank"].unique().sort())
        share = pl.when(own).then(mean / took).otherwise(mean / others)
        change = _nodes(rows.select("node", length=pl.col("took") * share + pl.col("gap")))
        found.append(Scenario("compute", ranks, change))
    return found


def _slow_transfers_of_groups(line: Timeline, replay: Replay) -> dict[tuple[tuple[int, ...], bool], dict[int, float]]:
    """The transfers of groups, and of pairs, that take longer than those of others, and what is usual for each."""
    slow: dict[tuple[tuple[int, ...], bool], dict[int, float]] = {}
    # Where somebody was not recorded, the others may wait for that one.
    whole = ((n, m) for n, m in enumerate(line.groups) if m.recorded == len(m.members))
    for numbers in grouped((_reach(line, m), n) for n, m in whole).values():
        groups = grouped((line.groups[n].members, n) for n in numbers)
        if len(groups) < 2:
            continue
        medians = {members: float(np.median(replay.transfers[own])) for members, own in groups.items()}
        usual = _usual(line, medians)
        for members, median in medians.items():
            if median > _SLOWER * usual:
                key = (tuple(sorted(members)), line.groups[groups[members][0]].pair)
                slow.setdefault(key, {}).update((n, min(usual, float(replay.transfers[n]))) for n in groups[members])
    return slow


def of_transfers(line: Timeline, replay: Replay, span: float) -> list[Scenario]:
    """Groups and pairs whose transfers take longer than those of others of one operation and size that reach as far."""
    found, names = [], {meeting.members: meeting.group for meeting in line.groups}
    for (members, pair), changed in _slow_transfers_of_groups(line, replay).items():
        saved = sum(replay.transfers[n] - t for n, t in changed.items())
        if saved < _MATTERS * span:
            continue
        # The kind of transfer that costs most speaks for the group.
        worst = max(changed, key=lambda n: replay.transfers[n] - changed[n])
        like = [n for n in changed if line.groups[n].size_bytes == line.groups[worst].size_bytes]
        took, other = (float(np.median(ns)) for ns in (replay.transfers[like], [changed[n] for n in like]))
        cause, change = _kind_of(line.groups[worst]), _meetings(changed, changed.values())
        scenario = Scenario("pair" if pair else "group", members, change, names.get(members), (), cause, took, other)
        found.append((saved, scenario))
    most = [scenario for _, scenario in sorted(found, key=lambda one: -one[0])][:_MOST]
    return most + ([_all_of(line, most)] if len(most) > 1 else [])


def _all_of(line: Timeline, found: list[Scenario]) -> Scenario:
    """All of several slow groups or pairs: those of one rank, or of one host, where all of them have it."""
    change = found[0].change
    for other in found[1:]:
        change = change.joined(other.change)
    ranks = tuple(sorted({r for s in found for r in s.ranks}))
    common = set.intersection(*(set(s.ranks) for s in found))
    hosts = set.intersection(*(_hosts(line, s.ranks) for s in found))
    if not common and len(hosts) == 1:
        common = {r for r in ranks if _hosts(line, (r,)) == hosts}
    one = bool(common) and len(found) > 2
    who = tuple(sorted(common)) if one else ranks
    return replace(found[0], kind="group" if one else "rail", ranks=who, change=change, group=None)


def _usual(line: Timeline, medians: dict[tuple[int, ...], float]) -> float:
    """The time of most groups; where all that join one host are slow, of those without it."""
    places = {members: _hosts(line, members) for members in medians}
    for host in set[str].union(*places.values()):
        own, rest = ([t for m, t in medians.items() if (host in places[m]) == here] for here in (True, False))
        if len(own) > 1 and len(rest) > 1 and min(own) > _FAR * max(rest):
            return float(np.median(rest))
    ordered = sorted(medians.values())
    return ordered[(len(ordered) - 1) // 2] if len(ordered) > 2 else ordered[0]


def _hosts(line: Timeline, ranks: Iterable[int]) -> set[str]:
    """The hosts of ranks, as far as known."""
    host = dict(zip(line.ranks, line.hosts, strict=True))
    return {name for r in ranks if (name := host.get(r)) is not None}


def _reach(line: Timeline, meeting: Meeting) -> tuple[object, ...]:
    """What groups and pairs are compared by: what they do, how many they are, over how many hosts, and how far their
    ranks are."""
    hosts = len(_hosts(line, meeting.members))
    apart = () if meeting.pair else tuple(b - a for a, b in itertools.pairwise(meeting.members))
    size = None if meeting.op in BY_TOKENS else meeting.size_bytes
    return meeting.op, size, len(meeting.members), hosts, apart


def _kind_of(meeting: Meeting) -> str:
    """``AllReduce of 32.0 MiB``."""
    return meeting.op + (f" of {format_bytes(meeting.size_bytes)}" if meeting.size_bytes else "")


def of_steps(line: Timeline, rows: pl.DataFrame, replay: Replay, span: float) -> list[Scenario]:
    """Single steps in which the transfers, or the idle time of all GPUs, take longer than in the other steps."""
    if line.steps < 4:
        return []
    found = []
    for cause, excess, change in (_slow_transfers(line, rows, replay), _slow_starts(line, rows)):
        # Of a step that is cut by the window nothing is known.
        slow = tuple(sorted(step for step, more in excess.items() if more > _MATTERS * span))
        if slow and len(slow) <= line.steps / 2:
            found.append(Scenario("step", (), change(slow), steps=slow, cause=cause))
    return found


def _slow_transfers(line: Timeline, rows: pl.DataFrame, replay: Replay) -> _Slow:
    worked = rows.group_by("step").agg(pl.col("took").sum())
    # Where ranks compute more, messages of unknown size may be larger.
    more = worked.filter(pl.col("took") > _SLOWER * pl.col("took").median())["step"].implode()
    meets = line.meeting >= 0
    each = pl.DataFrame({"number": line.meeting[meets], "step": line.step[meets], "at": line.start[meets]})
    known = [
        (n, m.op, m.size_bytes, f"{m.op} {m.size_bytes} {m.members}", str(m.members), m.recorded)
        for n, m in enumerate(line.groups)
    ]
    table = (
        pl.DataFrame(known, ["number", "op", "size", "kind", "members", "recorded"], orient="row")
        .with_columns(took=pl.Series(replay.transfers))
        # Fewer than were ever recorded together also wait for those that were not.
        .filter(pl.col("recorded") == pl.col("recorded").max().over("members"))
        .join(each.group_by("number").agg(pl.col("step").last(), pl.col("at").min()), on="number")
        .filter(pl.col("step") >= 0)
        .sort("at")
        .with_columns(nth=pl.int_range(pl.len()).over("kind", "step"))
        .with_columns(usual=pl.col("took").median().over("kind", "nth"))
        .filter(pl.col("took") > _SLOWER * pl.col("usual"), pl.col("size").is_not_null() | ~pl.col("step").is_in(more))
    )
    # Groups transfer side by side: those of one kind count once.
    excess = (
        table.group_by("step", "op", "nth")
        .agg(more=(pl.col("took") - pl.col("usual")).max())
        .group_by("step")
        .agg(pl.col("more").sum())
    )

    def change(steps: tuple[int, ...]) -> Change:
        rows = table.filter(pl.col("step").is_in(steps))
        return _meetings(rows["number"], rows["usual"])

    return TRANSFERS, dict(excess.iter_rows()), change


def _slow_starts(line: Timeline, rows: pl.DataFrame) -> _Slow:
    table = (
        rows.filter(pl.col("step") >= 0)
        .with_columns(usual=pl.col("gap").median().over("rank", "name", "nth"))
        .filter((pl.col("gap") > PAUSE_NS) & (pl.col("gap") > pl.col("usual") + PAUSE_NS))
    )
    excess = (
        table.group_by("step", "rank")
        .agg(more=(pl.col("gap") - pl.col("usual")).sum())
        .group_by("step")
        .agg(pl.col("more").min(), n=pl.len())
        .filter(pl.col("n") == len(line.ranks))
    )

    def change(steps: tuple[int, ...]) -> Change:
        part = table.filter(pl.col("step").is_in(steps))
        return _nodes(part.select("node", length=pl.col("took") + pl.max_horizontal("usual", 0.0)))

    return IDLE, dict(excess.select("step", "more").iter_rows()), change


def ideal(line: Timeline, rows: pl.DataFrame, replay: Replay) -> Change:
    """Every kernel as it is on average, also over stages, transfers as usual for their kind, no unusual pauses.

    Work of one role stays with it where no pipeline hands it on.
    """
    alike = ["name"] if any(meeting.pair for meeting in line.groups) else ["role", "name"]
    pause = pl.min_horizontal("gap", pl.col("gap").median().over(*alike, "step", "nth"))
    change = _nodes(rows.select("node", length=pl.col("took").mean().over(alike) + pause))
    kinds = grouped(((m.op, m.size_bytes, len(m.members)), number) for number, m in enumerate(line.groups))
    usual = replay.transfers.copy()
    for numbers in kinds.values():
        usual[numbers] = np.median(usual[numbers])
    return change.joined(_meetings(range(usual.size), usual))
