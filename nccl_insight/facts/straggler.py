"""Who arrives last in matched collectives, by how much, and whether that is more than chance.

Judged in every process group by itself, on arrivals from which waiting elsewhere was taken off
(:mod:`nccl_insight.facts.lateness`). The delay that a rank causes in one collective is what would be saved had it
arrived with the second-last; the delay of a rank is their sum, of one group. Everything printed about delays is
this figure.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import polars as pl

from nccl_insight.facts.chance import binomial_tail
from nccl_insight.facts.late import (
    ALPHA_COLLECTIVES,
    MIN_DELAY_NS,
    MIN_STEPS,
    OUTLIER,
    OUTLIER_SHARE,
    Once,
    Scale,
    Straggler,
    events_of,
    material,
    within_exposed,
)
from nccl_insight.facts.late_limits import PIPELINE, exposed, no_more_than_exposed, not_held_elsewhere, waits_as_long
from nccl_insight.facts.late_once import concentrated, distinct, follows, late_once, one_of_many
from nccl_insight.facts.late_ranks import often_last, slow_members
from nccl_insight.facts.lateness import arrivals_of_ranks, chains, stages
from nccl_insight.facts.routed import routed_groups, routed_ranks
from nccl_insight.tables.run import Run, fact

_FEW_RANKS: Final = 4
_COMPARABLE: Final = 0.2
_STAGE_SHARE: Final = 0.1
_MOST_OF_HOST: Final = 0.6
_AS_LATE: Final = 0.5
_HOST_SHARE: Final = 0.02
"""Of two hosts one is later on average; less than this is not worth a word."""


_Parts: TypeAlias = Sequence[tuple[pl.DataFrame, pl.DataFrame]]


@dataclass(frozen=True)
class Arrivals:
    """Arrival statistics of a run.

    ``ranks``: ``rank, collectives, times_last, times_first, delay_ns, worst_delay_ns, mean_wait_ns``, most delay
    first. ``delay_ns`` is what the rank cost the others, ``mean_wait_ns`` what it waited for others' own lateness.
    ``stragglers`` are the ranks that pass the test; ``once`` those late in one or two steps only; ``wait_share`` is
    the mean waiting time, as far as no compute covers it, over the window; ``routed`` is the part of it in groups of
    experts that get unequal numbers of tokens, 0..1.
    """

    ranks: pl.DataFrame
    stragglers: tuple[Straggler, ...]
    once: tuple[Once, ...]
    collectives: int
    by_clock: bool
    window_ns: int
    wait_share: float
    cpu_only: bool
    routed: float = 0.0


@dataclass(frozen=True)
class LateHost:
    """A host whose ranks together arrive last significantly often; ``test.ranks`` is an index of no meaning."""

    host: str
    ranks: tuple[int, ...]
    test: Straggler


def delays(run: Run) -> dict[int, int]:
    """What each rank cost the others, nanoseconds by rank: the figure of every text, table and drawing about delays."""
    found = arrivals(run)
    if found is None:
        return {}
    every: dict[int, int] = dict(found.ranks.select("rank", "delay_ns").iter_rows())
    return every | {s.rank: s.delay_ns for s in found.stragglers if len(s.ranks) == 1}


def _scale(run: Run, rows: pl.DataFrame) -> Scale:
    comm = rows.group_by("rank").agg(pl.col("duration_ns").sum())["duration_ns"].mean()
    staged = run.table("collectives").filter(pl.col("op").cast(pl.String).is_in(["Send", "Recv"])).height > 0
    return Scale(
        _window(rows),
        float(comm or 0),  # type: ignore[arg-type]
        rows["rank"].n_unique(),
        bool(rows["by_clock"].all()),
        rows["source"].unique().to_list() == ["cpu_op"],
        staged,
    )


def _compares_stages(members: Sequence[int], chain: Mapping[int, int]) -> bool:
    """Whether a group holds two stages of one pipeline; else its members do equal work, as in a job without stages."""
    known = [chain[r] for r in members if r in chain]
    return len(set(known)) < len(known)


@fact
def late_hosts(run: Run) -> tuple[LateHost, ...]:
    """Hosts (of two or more ranks, among at least two hosts) that pass the same test as single ranks do.

    A host arrives with its last rank. Empty where a rank's host is unknown.
    """
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
            pl.col("own_ns", "limit_ns").max(),
            pl.col("since").first(),
            pl.col("step").min(),
            pl.col("start_ns").min(),
            pl.col("group").first(),
            pl.col("duration_ns").max(),
            pl.col("wait_ns", "shown_wait_ns").min(),
        )
        .filter(pl.len().over("match_id") > 1)
    )
    if arrived.is_empty():
        return ()
    scale = _scale(run, rows)
    uneven = bool(routed_ranks(run))
    scale = Scale(scale.window, scale.comm, hosts.height, scale.by_clock, scale.on_cpu, uneven)
    names, ranks = hosts["host"].to_list(), hosts["rank"].to_list()
    parts = [(part, events_of(part)) for part in arrived.partition_by("group", maintain_order=True)]
    found = [
        often_last(events, scale)
        or tuple(s for s in slow_members(part, events, scale) if s.window_share >= _HOST_SHARE)
        for part, events in parts
    ]
    best = {late.rank: late for late in sorted(itertools.chain(*found), key=lambda late: late.delay_ns)}
    return tuple(LateHost(names[i], tuple(ranks[i]), late) for i, late in sorted(best.items()))


@fact
def arrivals(run: Run) -> Arrivals | None:
    """Arrival statistics over all matched collectives; None when fewer than two ranks were matched."""
    rows = arrivals_of_ranks(run)
    if rows.is_empty() or (rows := rows.drop_nulls("rank")).is_empty():
        return None
    scale = _scale(run, rows)
    parts = [
        (part, within_exposed(events_of(part), exposed(run, part)))
        for part in rows.partition_by("group", maintain_order=True)
    ]
    staged = [] if rows["label"][0] == PIPELINE else _stage_parts(run)
    # Half of a group may be late by what could not be taken off; so only where nobody else is.
    stragglers = _found(run, rows, parts, staged, scale) or _found(run, rows, parts, [], scale, halves=True)
    if not stragglers:
        stragglers = _often(parts, scale)
    stragglers = [no_more_than_exposed(run, s) for s in stragglers]
    stragglers.sort(key=lambda s: (-s.delay_ns, s.ranks))
    named = {r for s in stragglers for r in s.ranks}
    once = [o for part, events in [*parts, *staged] for o in late_once(part, events, scale) if o.rank not in named]
    once = [o for o in once if not follows(o, once) and not one_of_many(o, [e for _, e in parts])]
    once = [o for o in once if not_held_elsewhere(run, (o.rank,), o.delay_ns)]
    latest = pl.col("own_ns").max().over("match_id")
    # What one rank waits in two groups for the same work counts once: no more than it stood in the collective.
    waits = rows.with_columns(
        wait=pl.min_horizontal(pl.max_horizontal(latest - pl.col("limit_ns"), 0), "wait_ns")
    ).with_columns(shown=pl.min_horizontal("wait", pl.coalesce("shown_wait_ns", "wait")))
    events = pl.concat([e for _, e in parts])
    # Waiting under compute costs nothing.
    mean_wait = float(waits.group_by("rank").agg(pl.col("shown").sum())["shown"].mean() or 0)  # type: ignore[arg-type]
    return Arrivals(
        _rank_table(waits, events), tuple(stragglers), distinct(once), events.height, scale.by_clock, scale.window,
        mean_wait / scale.window if scale.window else 0.0, scale.on_cpu, _routed(run, waits),
    )  # fmt: skip


def _found(
    run: Run, rows: pl.DataFrame, parts: _Parts, staged: _Parts, scale: Scale, halves: bool = False
) -> list[Straggler]:
    """The ranks that pass a test in some group, less those that only stand for others."""
    found: dict[tuple[int, ...], list[Straggler]] = {}
    chain = chains(run)
    routed = routed_ranks(run)
    for part, events in [*parts, *staged]:
        members = tuple(sorted(part["rank"].unique().to_list()))
        stages_differ = scale.pipeline and (not chain or _compares_stages(members, chain))
        own = replace(scale, pipeline=stages_differ or not routed.isdisjoint(members))
        late = tuple(
            item
            for item in often_last(events, own) or slow_members(part, events, own, halves)
            if not concentrated(events, item.ranks) and not _unequal_stages(part, item)
        )
        for item in late:
            held = int(part.filter(pl.col("rank").is_in(item.ranks))["inherited_ns"].sum())
            placed = replace(item, group=part["label"][0], group_ranks=members, inherited_ns=held)
            found.setdefault(item.ranks, []).append(placed)
    stragglers = [_merged(items) for items in found.values()]
    stragglers = _whole_hosts(run, _whole_stages(stragglers, parts))
    stragglers = [s for s in stragglers if not _part_of_another(s, stragglers)]
    stragglers = [replace(s, ranks=kept) for s in stragglers if (kept := not_held_elsewhere(run, s.ranks, s.delay_ns))]
    stragglers = [s for s in stragglers if not _part_of_another(s, stragglers)]
    return [s for s in stragglers if not waits_as_long(rows, s)]


def _routed(run: Run, waits: pl.DataFrame) -> float:
    total = int(waits["shown"].sum())
    mine = waits.filter(pl.col("label").is_in(routed_groups(run)))
    return int(mine["shown"].sum()) / total if total else 0.0


def _unequal_stages(part: pl.DataFrame, late: Straggler) -> bool:
    """Whether a stage of a pipeline takes so little longer than the others that its share of the layers explains it."""
    if part["label"][0] != PIPELINE:
        return False
    others = part.filter(~pl.col("rank").is_in(late.ranks)).group_by("match_id").agg(pl.col("own_ns").median())
    return late.delay_ns < _STAGE_SHARE * float(others["own_ns"].sum())


def _stage_parts(run: Run) -> list[tuple[pl.DataFrame, pl.DataFrame]]:
    """Stages of pipelines that no collective compares."""
    rows = stages(run)
    return [
        (part, events_of(part)) for part in (rows.partition_by("group", maintain_order=True) if rows.height else ())
    ]


def _whole_stages(found: list[Straggler], parts: Sequence[tuple[pl.DataFrame, pl.DataFrame]]) -> list[Straggler]:
    """Late ranks of several pipelines that share a process group as one: it is their stage."""
    late = [s for s in found if s.group == PIPELINE and len(s.ranks) == 1]
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


def _whole_hosts(run: Run, found: list[Straggler]) -> list[Straggler]:
    """Late ranks that are all the ranks of one host, among several hosts, as one: it is their host.

    All, or most where the others are about as late and only miss significance.
    """
    clocks = run.table("trace_clocks").drop_nulls(["rank", "host"])
    hosts = [set(ranks) for ranks in clocks.group_by("host").agg("rank").sort("host")["rank"].to_list()]
    for host in hosts if len(hosts) > 1 else ():
        own = [s for s in found if set(s.ranks) <= host]
        named = {r for s in own for r in s.ranks}
        if (len(own) > 1 and named == host) or (named and named < host and _as_late(run, named, host)):
            most = max(own, key=lambda s: s.delay_ns)
            together = replace(most, ranks=tuple(sorted(host)), groups=len(own))
            found = [s for s in found if s not in own] + [together]
    # Ranks of several hosts that hide each other are late together.
    across = [s for s in found if len(s.ranks) > 1 and not any(set(s.ranks) <= host for host in hosts)]
    named = {r for s in across for r in s.ranks}
    whole = [host for host in hosts if host <= named]
    if len(across) > 1 and named == set().union(*whole):
        most = max(across, key=lambda s: s.delay_ns)
        together = replace(most, ranks=tuple(sorted(named)), groups=len(across))
        found = [s for s in found if s not in across] + [together]
    return found


def _as_late(run: Run, named: set[int], host: set[int]) -> bool:
    """Whether the other ranks of a host are on average at least half as late as those that were found late."""
    if len(named) < _MOST_OF_HOST * len(host):
        return False
    rows = arrivals_of_ranks(run).filter(pl.col("own_ns").is_not_null())
    mine = pl.col("rank").is_in(host)
    excess = (
        rows.with_columns(usual=pl.col("own_ns").filter(~mine).median().over("match_id"))
        .filter(mine & pl.col("usual").is_not_null())
        .group_by("rank")
        .agg((pl.col("own_ns") - pl.col("usual")).mean().alias("excess"))
    )
    late = dict(excess.iter_rows())
    found = [late[r] for r in named if r in late]
    return len(late) == len(host) and min(late[r] for r in host - named) >= _AS_LATE * sum(found) / len(found)


def _often(parts: Sequence[tuple[pl.DataFrame, pl.DataFrame]], scale: Scale) -> list[Straggler]:
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
    if each.is_empty() or each["step"].n_unique() < MIN_STEPS:
        return []
    usual = float(each["delay_ns"].median() or 0)  # type: ignore[arg-type]
    top = each.sort("delay_ns", descending=True).unique(["step", "last"], keep="first", maintain_order=True)
    least = max(OUTLIER * max(usual, MIN_DELAY_NS), _COMPARABLE * int(top["delay_ns"][0]))
    outlying = top.filter(pl.col("delay_ns") > least)
    counts = outlying.group_by("last").agg(times=pl.len()).sort("times", "last", descending=[True, False])
    if outlying.height < 3 or counts["times"][0] < OUTLIER_SHARE * outlying.height:
        return []
    rank, times = counts.row(0)
    p_value = min(1.0, scale.ranks * binomial_tail(times, outlying.height, 1 / scale.ranks))
    mine = outlying.filter(pl.col("last") == rank)
    delay, worst = int(mine["delay_ns"].sum()), int(mine["worst"].max() or 0)  # type: ignore[arg-type]
    if p_value > ALPHA_COLLECTIVES or not material(delay, worst, scale):
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
