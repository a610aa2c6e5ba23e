"""Who arrives last in matched collectives, by how much, and whether that is more than chance.

Judged in every process group by itself, on arrivals from which waiting elsewhere was taken off
(:mod:`nccl_insight.facts.lateness`). The delay that a rank causes in one collective is what would be saved had it
arrived with the second-last; the delay of a rank is their sum, of one group. Everything printed about delays is
this figure.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from nccl_insight.facts.chance import binomial_tail, mean_above_zero
from nccl_insight.facts.lateness import arrivals_of_ranks, stages
from nccl_insight.tables.run import Run

_ALPHA_STEPS: Final = 0.05
_ALPHA_COLLECTIVES: Final = 0.01
_ALPHA_SURE: Final = 1e-6
_ALPHA_MEAN: Final = 0.001
_MIN_STEPS: Final = 4
_FEW_STEPS: Final = 8
_LEAST_FOR_MEAN: Final = 3
_DRAWS: Final = 20_000
_MIN_SHARE: Final = 0.4
_STRONG_SHARE: Final = 0.5
_OUTLIER_SHARE: Final = 0.7
_OUTLIER: Final = 3.0
_MIN_WINDOW_SHARE: Final = 0.01
_MIN_COMM_SHARE: Final = 0.05
_PIPELINE_SHARE: Final = 0.05
"""Stages of a pipeline do different work, so small differences between them say nothing."""
_MIN_DELAY_NS: Final = 20_000
_ONCE_SHARE: Final = 0.5
_ONCE_FACTOR: Final = 10.0
_ONCE_UNITS: Final = 2
_MOSTLY: Final = 0.8
_ALIKE: Final = 0.5
_FEW_RANKS: Final = 4
_COMPARABLE: Final = 0.2
_PIPELINE: Final = "pipeline"
"""Label of rows that compare the stages of a pipeline (:func:`nccl_insight.facts.lateness.stages`)."""


@dataclass(frozen=True)
class Straggler:
    """Ranks that are late significantly often: mostly one. ``p_value`` is corrected for the number of ranks tested.

    ``group`` and ``group_ranks`` name the process group in which they cost most; ``groups`` is how many show it.
    ``steps``, of ``of_steps``, are those in which the rank is late, where it is not late in all.
    """

    ranks: tuple[int, ...]
    times_last: int
    units: int
    unit: str
    expected_share: float
    p_value: float
    delay_ns: int
    delay_share: float
    window_share: float
    worst_delay_ns: int
    by_clock: bool
    group: str | None = None
    group_ranks: tuple[int, ...] = ()
    groups: int = 1
    inherited_ns: int = 0
    steps: tuple[int, ...] = ()
    of_steps: int = 0

    @property
    def rank(self) -> int:
        """The first of the ranks."""
        return self.ranks[0]


@dataclass(frozen=True)
class Once:
    """A rank that was late in one or two steps, which make up most of the delay in its group."""

    rank: int
    steps: tuple[int, ...]
    at_ns: tuple[int, ...]
    delay_ns: int
    delay_share: float
    window_share: float
    usual_ns: int
    first: bool
    group: str | None
    group_ranks: tuple[int, ...]


@dataclass(frozen=True)
class Arrivals:
    """Arrival statistics of a run.

    ``ranks``: ``rank, collectives, times_last, times_first, delay_ns, worst_delay_ns, mean_wait_ns``, most delay
    first. ``delay_ns`` is what the rank cost the others, ``mean_wait_ns`` what it waited for others' own lateness.
    ``stragglers`` are the ranks that pass the test; ``once`` those late in one or two steps only; ``wait_share`` is
    the mean waiting time over the window.
    """

    ranks: pl.DataFrame
    stragglers: tuple[Straggler, ...]
    once: tuple[Once, ...]
    collectives: int
    by_clock: bool
    window_ns: int
    wait_share: float
    cpu_only: bool


@dataclass(frozen=True)
class LateHost:
    """A host whose ranks together arrive last significantly often; ``test.ranks`` is an index of no meaning."""

    host: str
    ranks: tuple[int, ...]
    test: Straggler


@dataclass(frozen=True)
class _Scale:
    """What delays are compared with: the recorded time, the communication of a rank, the number of ranks tested."""

    window: int
    comm: float
    ranks: int
    by_clock: bool
    on_cpu: bool
    pipeline: bool = False


def arrivals(run: Run) -> Arrivals | None:
    """Arrival statistics over all matched collectives; None when fewer than two ranks were matched."""
    return run.memo("views.straggler.arrivals", _arrivals)


def delays(run: Run) -> dict[int, int]:
    """What each rank cost the others, nanoseconds by rank: the figure of every text, table and drawing about delays."""
    found = arrivals(run)
    if found is None:
        return {}
    every: dict[int, int] = dict(found.ranks.select("rank", "delay_ns").iter_rows())
    return every | {s.rank: s.delay_ns for s in found.stragglers if len(s.ranks) == 1}


def late_hosts(run: Run) -> tuple[LateHost, ...]:
    """Hosts (of two or more ranks, among at least two hosts) that pass the same test as single ranks do.

    A host arrives with its last rank. Empty where a rank's host is unknown.
    """
    return run.memo("views.straggler.late_hosts", _late_hosts)


def _scale(run: Run, rows: pl.DataFrame) -> _Scale:
    comm = rows.group_by("rank").agg(pl.col("duration_ns").sum())["duration_ns"].mean()
    staged = run.table("collectives").filter(pl.col("op").cast(pl.String).is_in(["Send", "Recv"])).height > 0
    return _Scale(
        _window(rows),
        float(comm or 0),  # type: ignore[arg-type]
        rows["rank"].n_unique(),
        bool(rows["by_clock"].all()),
        rows["source"].unique().to_list() == ["cpu_op"],
        staged,
    )


def _late_hosts(run: Run) -> tuple[LateHost, ...]:
    rows = arrivals_of_ranks(run)
    clocks = run.table("trace_clocks")
    if rows.is_empty() or clocks["host"].null_count():
        return ()
    hosts = clocks.group_by("host").agg(pl.col("rank").sort()).sort("host").with_row_index("index")
    if hosts.height < 2 or int(hosts.select(pl.col("rank").list.len().min()).item()) < 2:
        return ()
    index = hosts.explode("rank").select("rank", index=pl.col("index").cast(pl.Int32))
    arrived = (
        rows.join(index, on="rank")
        .group_by("match_id", rank="index")
        .agg(
            pl.col("own_ns", "limit_ns").max(), pl.col("since").first(),
            pl.col("step").min(), pl.col("start_ns").min(), pl.col("group").first(),
            pl.col("duration_ns").max(), pl.col("wait_ns").min(),
        )
        .filter(pl.len().over("match_id") > 1)
    )  # fmt: skip
    if arrived.is_empty():
        return ()
    scale = _scale(run, rows)
    scale = _Scale(scale.window, scale.comm, hosts.height, scale.by_clock, scale.on_cpu)
    names, ranks = hosts["host"].to_list(), hosts["rank"].to_list()
    found = [_test(_events(part), scale) for part in arrived.partition_by("group", maintain_order=True)]
    best = {late.rank: late for late in sorted(itertools.chain(*found), key=lambda late: late.delay_ns)}
    return tuple(LateHost(names[i], tuple(ranks[i]), late) for i, late in sorted(best.items()))


def _arrivals(run: Run) -> Arrivals | None:
    rows = arrivals_of_ranks(run)
    if rows.is_empty() or (rows := rows.drop_nulls("rank")).is_empty():
        return None
    scale = _scale(run, rows)
    found: dict[tuple[int, ...], list[Straggler]] = {}
    parts = [(part, _events(part)) for part in rows.partition_by("group", maintain_order=True)]
    staged = [] if rows["label"][0] == _PIPELINE else _stage_parts(run)
    for part, events in [*parts, *staged]:
        members = tuple(sorted(part["rank"].unique().to_list()))
        late = tuple(
            item
            for item in _test(events, scale) or _slow_members(part, events, scale)
            if not _concentrated(events, item.ranks)
        )
        for item in late:
            held = int(part.filter(pl.col("rank").is_in(item.ranks))["inherited_ns"].sum())
            placed = replace(item, group=part["label"][0], group_ranks=members, inherited_ns=held)
            found.setdefault(item.ranks, []).append(placed)
    stragglers = [_merged(items) for items in found.values()]
    stragglers = _whole_stages(stragglers, parts)
    stragglers = [s for s in stragglers if not _part_of_another(s, stragglers)]
    if not stragglers:
        stragglers = _often(parts, scale)
    stragglers.sort(key=lambda s: (-s.delay_ns, s.ranks))
    named = {r for s in stragglers for r in s.ranks}
    once = [
        o for part, events in [*parts, *staged] for o in _once(part, events, scale) if o.rank not in named
    ]
    once = [o for o in once if not _follows(o, once) and not _one_of_many(o, [e for _, e in parts])]
    latest = pl.col("own_ns").max().over("match_id")
    # What one rank waits in two groups for the same work counts once: no more than it stood in the collective.
    waits = rows.with_columns(
        wait=pl.min_horizontal(pl.max_horizontal(latest - pl.col("limit_ns"), 0), "wait_ns")
    )
    events = pl.concat([e for _, e in parts])
    mean_wait = float(waits.group_by("rank").agg(pl.col("wait").sum())["wait"].mean() or 0)  # type: ignore[arg-type]
    return Arrivals(
        _rank_table(waits, events), tuple(stragglers), _distinct(once), events.height, scale.by_clock, scale.window,
        mean_wait / scale.window if scale.window else 0.0, scale.on_cpu,
    )  # fmt: skip


def _stage_parts(run: Run) -> list[tuple[pl.DataFrame, pl.DataFrame]]:
    """Stages of pipelines that no collective compares."""
    rows = stages(run)
    return [
        (part, _events(part))
        for part in (rows.partition_by("group", maintain_order=True) if rows.height else ())
    ]


def _whole_stages(
    found: list[Straggler], parts: Sequence[tuple[pl.DataFrame, pl.DataFrame]]
) -> list[Straggler]:
    """Late ranks of several pipelines that share a process group as one: it is their stage."""
    late = [s for s in found if s.group == _PIPELINE and len(s.ranks) == 1]
    rest = [s for s in found if s not in late]
    groups = [set(part["rank"].unique().to_list()) for part, _ in parts]
    bundles: list[list[Straggler]] = []
    for item in late:
        near = [b for b in bundles if any(g >= {item.rank, o.rank} for g in groups for o in b)]
        bundles = [b for b in bundles if b not in near] + [[item, *itertools.chain(*near)]]
    for bundle in bundles:
        most = max(bundle, key=lambda s: s.delay_ns)
        ranks = tuple(sorted(s.rank for s in bundle))
        rest.append(replace(most, ranks=ranks, groups=len(bundle)))
    return rest


def _often(parts: Sequence[tuple[pl.DataFrame, pl.DataFrame]], scale: _Scale) -> list[Straggler]:
    """A rank that is late in some of the steps only, but then nobody else is.

    In a group of two, one of two must be the last, so a group alone cannot show it; the whole job can: of the steps
    with a delay far above the usual, in whatever group, one rank causes nearly all.
    """
    if scale.on_cpu or not scale.window or scale.ranks < _FEW_RANKS:
        return []
    sums = [
        events.filter(pl.col("step").is_not_null())
        .group_by("step", "last")
        .agg(pl.col("delay_ns").sum(), worst=pl.col("delay_ns").max())
        .with_columns(part=pl.lit(i))
        for i, (_, events) in enumerate(parts)
    ]
    each = pl.concat(sums) if sums else pl.DataFrame()
    if each.is_empty() or each["step"].n_unique() < _MIN_STEPS:
        return []
    usual = float(each["delay_ns"].median() or 0)  # type: ignore[arg-type]
    top = each.sort("delay_ns", descending=True).unique(["step", "last"], keep="first", maintain_order=True)
    least = max(_OUTLIER * max(usual, _MIN_DELAY_NS), _COMPARABLE * int(top["delay_ns"][0]))
    outlying = top.filter(pl.col("delay_ns") > least)
    counts = outlying.group_by("last").agg(times=pl.len()).sort("times", "last", descending=[True, False])
    if outlying.height < 3 or counts["times"][0] < _OUTLIER_SHARE * outlying.height:
        return []
    rank, times = counts.row(0)
    p_value = min(1.0, scale.ranks * binomial_tail(times, outlying.height, 1 / scale.ranks))
    mine = outlying.filter(pl.col("last") == rank)
    delay, worst = int(mine["delay_ns"].sum()), int(mine["worst"].max() or 0)  # type: ignore[arg-type]
    if p_value > _ALPHA_COLLECTIVES or not _material(delay, worst, scale):
        return []
    part = parts[mine["part"][0]][0]
    total = int(top["delay_ns"].sum())
    return [
        Straggler(
            (rank,), times, outlying.height, "outlying steps", 1 / scale.ranks, p_value, delay, delay / total,
            delay / scale.window, worst, scale.by_clock, part["label"][0],
            tuple(sorted(part["rank"].unique().to_list())), mine["part"].n_unique(),
            steps=tuple(sorted(mine["step"].to_list())), of_steps=each["step"].n_unique(),
        )
    ]  # fmt: skip


def _merged(items: Sequence[Straggler]) -> Straggler:
    """The group in which the ranks cost most stands for all that show it."""
    most = max(items, key=lambda s: s.delay_ns)
    return replace(most, groups=len(items))


def _part_of_another(item: Straggler, others: Sequence[Straggler]) -> bool:
    return any(set(item.ranks) < set(o.ranks) for o in others)


def _concentrated(events: pl.DataFrame, ranks: tuple[int, ...]) -> bool:
    """Whether most of what some ranks cost fell into one or two of many steps: then they are not slow, they were."""
    own = events.filter(pl.col("last").is_in(ranks))
    numbered = events["step"].null_count() == 0 and events["step"].n_unique() > 1
    unit = "step" if numbered else "match_id"
    every = events[unit].n_unique()
    sums = own.group_by(unit).agg(pl.col("delay_ns").sum())["delay_ns"].sort(descending=True)
    if every < 3 * _ONCE_UNITS - 1 or not sums.sum():
        return False
    return int(sums.head(1).sum()) >= _MOSTLY * int(sums.sum())


def _follows(item: Once, others: Sequence[Once]) -> bool:
    """Whether a rank was late only in steps in which another one was later, in another group."""
    return any(
        o.delay_ns > item.delay_ns and o.rank != item.rank and set(item.steps) <= set(o.steps) for o in others
    )


def _one_of_many(item: Once, events: Sequence[pl.DataFrame]) -> bool:
    """Whether other ranks were as late in other steps: then lateness moves around, and no rank was late *once*."""
    unit = "step" if item.steps else "start_ns"
    mine = item.steps or item.at_ns
    for part in events:
        sums = part.filter((pl.col("last") != item.rank) & ~pl.col(unit).is_in(mine)).group_by(unit, "last")
        worst = sums.agg(pl.col("delay_ns").sum())["delay_ns"].max()
        if int(worst or 0) >= _ALIKE * item.delay_ns / len(mine):  # type: ignore[arg-type]
            return True
    return False


def _distinct(once: Sequence[Once]) -> tuple[Once, ...]:
    """One entry a rank: that of the largest delay."""
    best: dict[int, Once] = {}
    for item in sorted(once, key=lambda o: -o.delay_ns):
        best.setdefault(item.rank, item)
    return tuple(best.values())


def _events(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per collective: ``last, first, delay_ns, members, step, start_ns`` in order of time."""
    ordered = rows.sort("match_id", "own_ns", "rank")
    others = pl.col("limit_ns").slice(0, pl.len() - 1).max()
    return (
        ordered.group_by("match_id", maintain_order=True)
        .agg(
            last=pl.col("rank").last(),
            first=pl.col("rank").first(),
            delay_ns=pl.max_horizontal(pl.col("own_ns").last() - others, 0),
            members=pl.len(),
            step=pl.col("step").min(),
            start_ns=pl.col("start_ns").min(),
            since=pl.col("since").first(),
        )
        .sort("start_ns", "match_id")
        .with_columns(delay_ns=_growth(pl.col("delay_ns"), ["since", "last"]))
    )


def _growth(delay: pl.Expr, by: list[str]) -> pl.Expr:
    """Arrivals that count from the same moment show one lateness again and again: only its growth counts."""
    return pl.max_horizontal(delay - delay.cum_max().shift(1).over(by).fill_null(0), 0)


def _window(rows: pl.DataFrame) -> int:
    """Longest time between the first start and the last end of a rank; without times, its time in collectives."""
    span = (pl.col("start_ns") + pl.col("duration_ns")).max() - pl.col("start_ns").min()
    spans = rows.group_by("rank").agg(span=pl.coalesce(span, pl.col("duration_ns").sum()))
    return int(spans["span"].max() or 0)  # type: ignore[arg-type]


def _rank_table(waits: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    last = events.group_by(rank="last").agg(
        times_last=pl.len(), delay_ns=pl.col("delay_ns").sum(), worst_delay_ns=pl.col("delay_ns").max()
    )
    first = events.group_by(rank="first").agg(times_first=pl.len())
    counts = waits.group_by("rank").agg(collectives=pl.len(), mean_wait_ns=pl.col("wait").mean())
    return (
        counts.join(last, on="rank", how="left")
        .join(first, on="rank", how="left")
        .with_columns(pl.col("times_last", "times_first", "delay_ns", "worst_delay_ns").fill_null(0))
        .sort(["delay_ns", "rank"], descending=[True, False])
    )


def _material(delay: int, worst: int, scale: _Scale) -> bool:
    """Whether a delay is worth a word at all."""
    if worst < _MIN_DELAY_NS:
        return False
    if scale.pipeline:
        return delay >= _PIPELINE_SHARE * scale.window or delay >= _MIN_SHARE * scale.comm
    return delay >= _MIN_WINDOW_SHARE * scale.window or delay >= _MIN_COMM_SHARE * scale.comm


def _test(events: pl.DataFrame, scale: _Scale) -> tuple[Straggler, ...]:
    """Single ranks of one group that are last more often, or by more, than chance allows."""
    total = int(events["delay_ns"].sum())
    if not total or not scale.window:
        return ()
    steps = events["step"].drop_nulls().n_unique()
    by_step = steps >= _MIN_STEPS
    units = _step_tops(events) if by_step else events
    limit = _OUTLIER * max(float(units["delay_ns"].median() or 0), _MIN_DELAY_NS)  # type: ignore[arg-type]
    outliers = units.filter(pl.col("delay_ns") > limit)
    found: list[Straggler] = []
    sums = events.group_by("last").agg(pl.col("delay_ns").sum(), worst=pl.col("delay_ns").max())
    for rank, delay, worst in sums.sort("delay_ns", descending=True).iter_rows():
        if not _material(delay, worst, scale):
            continue
        once = events.filter(pl.col("last") != rank)["delay_ns"].max()
        shares = delay / total, delay / max(1, total - int(once or 0))  # type: ignore[arg-type]
        verdict = _verdict(events, units, outliers, rank, shares, scale, by_step)
        if verdict is None:
            continue
        times, trials, p_value, chance, unit = verdict
        found.append(
            Straggler((rank,), times, trials, unit, chance, p_value, int(delay), delay / total, delay / scale.window,
                      int(worst), scale.by_clock)
        )  # fmt: skip
    return tuple(found)


def _slow_members(rows: pl.DataFrame, events: pl.DataFrame, scale: _Scale) -> tuple[Straggler, ...]:
    """Ranks of one group that are later than its median in step after step: one, or several that hide each other.

    The excess over the median of the others is summed by step (or taken by collective) and its mean tested against
    zero. Several such ranks count as one: their delay is the time from the last rank that is none of them.
    """
    n = rows["rank"].n_unique()
    if scale.on_cpu or not scale.window or n < 2:
        return ()
    by_step = rows["step"].drop_nulls().n_unique() >= _LEAST_FOR_MEAN
    unit = "step" if by_step else "match_id"
    kept = rows.filter(pl.col(unit).is_not_null())
    middle = pl.col("limit_ns").median().over("match_id")
    if n == 2:
        middle = pl.col("limit_ns").min().over("match_id")
    sums = (
        kept.with_columns(excess=pl.col("own_ns") - middle)
        .group_by("rank", unit)
        .agg(pl.col("excess").sum())
        .sort("rank", unit)
    )
    if n == 2:  # the other one's excess is the measure, or jitter would make both positive
        sums = sums.with_columns(excess=2 * pl.col("excess") - pl.col("excess").sum().over(unit))
    late: list[tuple[int, float]] = []
    for (rank,), part in sums.group_by("rank", maintain_order=True):
        values = [float(v) for v in part["excess"].to_list()]
        p_value = min(1.0, scale.ranks * mean_above_zero(values))
        if p_value <= _ALPHA_MEAN and _material(int(sum(values)), int(max(values)), scale):
            late.append((int(str(rank)), p_value))
    if not late or 2 * len(late) > n or (n > 2 and 2 * len(late) == n):
        return ()
    ranks = tuple(r for r, _ in late)
    among = pl.col("rank").is_in(ranks)
    cost = (
        rows.group_by("match_id", "step")
        .agg(
            own=pl.col("own_ns").filter(among).max(), other=pl.col("limit_ns").filter(~among).max(),
            since=pl.col("since").first(), start_ns=pl.col("start_ns").min(),
        )
        .sort("start_ns", "match_id")
        .with_columns(delay=pl.max_horizontal(pl.col("own") - pl.col("other"), 0))
        .with_columns(delay=_growth(pl.col("delay"), ["since"]))
    )  # fmt: skip
    delay, worst = int(cost["delay"].sum()), int(cost["delay"].max() or 0)  # type: ignore[arg-type]
    if not _material(delay, worst, scale):
        return ()
    units = cost.group_by("step").agg(pl.col("delay").sum()) if by_step else cost
    times = int((units["delay"] > 0).sum())
    total = max(int(events["delay_ns"].sum()), delay)
    return (
        Straggler(ranks, times, units.height, "steps" if by_step else "collectives", len(ranks) / n,
                  max(p for _, p in late), delay, delay / total, delay / scale.window, worst, scale.by_clock),
    )  # fmt: skip


def _once(rows: pl.DataFrame, events: pl.DataFrame, scale: _Scale) -> list[Once]:
    """The rank whose delay in one or two steps makes up most of all delay of the group."""
    total = int(events["delay_ns"].sum())
    if scale.on_cpu or not total or not scale.window:
        return []
    numbered = events["step"].null_count() == 0 and events["step"].n_unique() > 1
    unit = "step" if numbered else "match_id"
    units = events.group_by(unit, "last").agg(pl.col("delay_ns").sum(), pl.col("start_ns").min())
    every = events[unit].n_unique()
    usual = int(events.group_by(unit).agg(pl.col("delay_ns").sum())["delay_ns"].median() or 0)  # type: ignore[arg-type]
    found: list[Once] = []
    tops = units.sort("delay_ns", descending=True).head(_ONCE_UNITS)
    rank = int(tops["last"][0])
    kept = tops.filter(
        (pl.col("last") == rank)
        & (pl.col("delay_ns") >= max(_ONCE_FACTOR * usual, _MIN_DELAY_NS))
        & (pl.col("delay_ns") >= 0.2 * tops["delay_ns"][0])
    )
    delay = int(kept["delay_ns"].sum())
    if (
        every >= 3 * max(1, kept.height)
        and delay >= _ONCE_SHARE * total
        and delay >= _MIN_WINDOW_SHARE * scale.window
    ):
        earliest = events.sort("start_ns")[unit][0]
        kept = kept.sort("start_ns")
        found.append(
            Once(
                rank,
                tuple(kept["step"].to_list()) if numbered else (),
                tuple(kept["start_ns"].to_list()),
                delay,
                delay / total,
                delay / scale.window,
                usual,
                earliest in kept[unit].to_list(),
                rows["label"][0],
                tuple(sorted(rows["rank"].unique().to_list())),
            )
        )
    return found


def _step_tops(events: pl.DataFrame) -> pl.DataFrame:
    """Per step the rank that delayed most: collectives of one step are not independent of each other."""
    sums = events.filter(pl.col("step").is_not_null()).group_by("step", "last").agg(pl.col("delay_ns").sum())
    members = events.group_by("step").agg(pl.col("members").max())
    return (
        sums.sort(["step", "delay_ns", "last"], descending=[False, True, False])
        .unique("step", keep="first", maintain_order=True)
        .join(members, on="step")
    )


def _verdict(
    events: pl.DataFrame, units: pl.DataFrame, outliers: pl.DataFrame, rank: int, shares: tuple[float, float],
    scale: _Scale, by_step: bool,
) -> tuple[int, int, float, float, str] | None:  # fmt: skip
    """(times last, trials, corrected p, chance, unit) of the first test that the rank passes.

    ``shares`` of all delay: as it is, and without the longest single delay by another rank. The second decides where
    chance is out of the question: a profiler that starts late on one rank can exceed all other delays together.
    Successive collectives of CPU processes are not independent (the scheduler favours one for a while), so single
    ones are counted against the strict level.
    """
    n = scale.ranks
    unit = "steps" if by_step else "collectives"
    alpha = _ALPHA_STEPS if by_step else _ALPHA_SURE if scale.on_cpu else _ALPHA_COLLECTIVES
    share, without_longest = shares
    times, chance = _tally(units, rank)
    p_value = min(1.0, n * binomial_tail(times, units.height, chance))
    sure = p_value <= _ALPHA_SURE and without_longest >= _MIN_SHARE
    if sure or (p_value <= alpha and share >= _MIN_SHARE):
        return times, units.height, p_value, chance, unit
    if by_step and units.height < _FEW_STEPS and share >= _STRONG_SHARE:
        p_value = min(1.0, n * _chance_of_delay(events, rank))
        if p_value <= _ALPHA_STEPS:
            return times, units.height, p_value, chance, unit
    times, chance = _tally(outliers, rank)
    if outliers.height >= 3 and times >= _OUTLIER_SHARE * outliers.height:
        p_value = min(1.0, n * binomial_tail(times, outliers.height, chance))
        if p_value <= _ALPHA_COLLECTIVES:
            return times, outliers.height, p_value, chance, f"outlying {unit}"
    return None


def _chance_of_delay(events: pl.DataFrame, rank: int) -> float:
    """Probability that one rank drawn anew in each step has caused as much delay in sum as this rank did.

    For few steps this says more than counting them, because it weighs how long the delays were. Exact up to
    ``_DRAWS`` combinations, drawn with a fixed seed beyond.
    """
    sums = events.filter(pl.col("step").is_not_null()).group_by("step", "last").agg(pl.col("delay_ns").sum())
    sizes = dict(events.group_by("step").agg(pl.col("members").max()).iter_rows())
    observed = int(sums.filter(pl.col("last") == rank)["delay_ns"].sum())
    steps: list[list[int]] = []
    for (step,), part in sums.group_by("step", maintain_order=True):
        delays = part["delay_ns"].to_list()
        steps.append(delays + [0] * max(0, sizes[step] - len(delays)))
    total = math.prod(len(step) for step in steps)
    if total <= _DRAWS:
        return sum(sum(drawn) >= observed for drawn in itertools.product(*steps)) / total
    draw = random.Random(0)
    hits = sum(sum(draw.choice(step) for step in steps) >= observed for _ in range(_DRAWS))
    return (hits + 1) / (_DRAWS + 1)


def _tally(units: pl.DataFrame, rank: int) -> tuple[int, float]:
    """How often the rank is the last, and how often any one member would be by chance."""
    if units.is_empty():
        return 0, 1.0
    chance = units.select((1.0 / pl.col("members")).mean()).item()
    return int((units["last"] == rank).sum()), float(chance)
