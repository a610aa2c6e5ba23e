"""Ranks that were late in one or two steps only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from nccl_insight.facts.late import MIN_DELAY_NS, MIN_WINDOW_SHARE, Once, Scale

_ONCE_SHARE: Final = 0.5
_ONCE_FACTOR: Final = 10.0
ONCE_UNITS: Final = 2
_MOSTLY: Final = 0.8
_ALIKE: Final = 0.5


def late_once(rows: pl.DataFrame, events: pl.DataFrame, scale: Scale) -> list[Once]:
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
    tops = units.sort("delay_ns", "start_ns", "last", descending=[True, False, False]).head(ONCE_UNITS)
    rank = int(tops["last"][0])
    kept = tops.filter(
        (pl.col("last") == rank)
        & (pl.col("delay_ns") >= max(_ONCE_FACTOR * usual, MIN_DELAY_NS))
        & (pl.col("delay_ns") >= 0.2 * tops["delay_ns"][0])
    )
    delay = int(kept["delay_ns"].sum())
    if every >= 3 * max(1, kept.height) and delay >= _ONCE_SHARE * total and delay >= MIN_WINDOW_SHARE * scale.window:
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


def concentrated(events: pl.DataFrame, ranks: tuple[int, ...]) -> bool:
    """Whether most of what some ranks cost fell into one or two of many steps: then they are not slow, they were."""
    own = events.filter(pl.col("last").is_in(ranks))
    numbered = events["step"].null_count() == 0 and events["step"].n_unique() > 1
    unit = "step" if numbered else "match_id"
    every = events[unit].n_unique()
    sums = own.group_by(unit).agg(pl.col("delay_ns").sum())["delay_ns"].sort(descending=True)
    if every < 3 * ONCE_UNITS - 1 or not sums.sum():
        return False
    return int(sums.head(1).sum()) >= _MOSTLY * int(sums.sum())


def follows(item: Once, others: Sequence[Once]) -> bool:
    """Whether a rank was late only in steps in which another one was later, in another group."""
    return any(o.delay_ns > item.delay_ns and o.rank != item.rank and set(item.steps) <= set(o.steps) for o in others)


def one_of_many(item: Once, events: Sequence[pl.DataFrame]) -> bool:
    """Whether other ranks were as late in other steps: then lateness moves around, and no rank was late *once*."""
    unit = "step" if item.steps else "start_ns"
    mine = item.steps or item.at_ns
    for part in events:
        sums = part.filter((pl.col("last") != item.rank) & ~pl.col(unit).is_in(mine)).group_by(unit, "last")
        worst = sums.agg(pl.col("delay_ns").sum())["delay_ns"].max()
        if int(worst or 0) >= _ALIKE * item.delay_ns / len(mine):  # type: ignore[arg-type]
            return True
    return False


def distinct(once: Sequence[Once]) -> tuple[Once, ...]:
    """One entry per rank: that of the largest delay."""
    best: dict[int, Once] = {}
    for item in sorted(once, key=lambda o: -o.delay_ns):
        best.setdefault(item.rank, item)
    return tuple(best.values())
