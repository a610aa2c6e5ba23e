"""Collectives that do not end: which ranks wait in them, and which never came or never finished."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from nccl_insight.facts.flight_recorder.entries import Group, Operation, operation_of
from nccl_insight.facts.lateness import SYNCHRONISING


@dataclass(frozen=True)
class Starved:
    """``waiting`` ranks have issued an operation that ``missing`` ranks never issued."""

    group: Group
    operation: Operation
    waiting: tuple[int, ...]
    missing: tuple[int, ...]
    last_issued: int | None


@dataclass(frozen=True)
class Lagging:
    """``behind`` ranks never finished an operation that ``ahead`` ranks finished."""

    group: Group
    operation: Operation
    behind: tuple[int, ...]
    ahead: tuple[int, ...]
    ahead_seq: int


@dataclass(frozen=True)
class Stalled:
    """All members have issued an operation and none finished it.

    ``started`` are the ranks on whose GPU it runs, ``waiting`` those whose GPU has not come to it (their dump tells
    starts), ``unknown`` those whose dump does not tell starts. ``whole``: every member of the group gave a dump.
    """

    group: Group
    operation: Operation
    started: tuple[int, ...]
    waiting: tuple[int, ...]
    unknown: tuple[int, ...]
    whole: bool

    @property
    def ranks(self) -> tuple[int, ...]:
        """All ranks that are in it."""
        return tuple(sorted({*self.started, *self.waiting, *self.unknown}))


def stalled_in(group: Group, pending: pl.DataFrame, dumped: frozenset[int], timed: frozenset[int]) -> list[Stalled]:
    """The first open operation of a group that all its dumped ranks, at least two, have issued and not finished."""
    first = pending["collective_seq"].min()
    rows = pending.filter((pl.col("collective_seq") == first) & pl.col("op").is_in(SYNCHRONISING)).unique(
        "rank", keep="first", maintain_order=True
    )
    here = set(rows["rank"].to_list())
    members = set(group.members) if group.members is not None else here
    if len(here) < 2 or here != members & dumped:
        return []
    running = {r for r, s, t in rows.select("rank", "state", "time_started_ns").iter_rows() if s == "started" or t}
    waiting = {r for r in here - running if r in timed}
    return [
        Stalled(
            group,
            operation_of(rows.sort("rank").row(0, named=True)),
            tuple(sorted(running)),
            tuple(sorted(waiting)),
            tuple(sorted(here - running - waiting)),
            members <= dumped and group.members is not None,
        )
    ]


def starved_in(
    group: Group,
    frame: pl.DataFrame,
    pending: pl.DataFrame,
    dumped: frozenset[int],
    unnamed: dict[int, int],
    timed: frozenset[int],
) -> list[Starved]:
    """The first operation that some ranks wait in and others of the group never issued.

    Ranks whose dumps tell starts (``timed``) and whose GPUs have not come to it do not wait in it yet: where that is so
    of all of them, they are merely ahead.
    """
    last = dict(zip(frame["rank"].to_list(), frame["enqueued"].to_list(), strict=True))
    first_open = pending["collective_seq"].min()
    silent = [
        r
        for r in group.members or ()
        if r in dumped and r not in last and isinstance(first_open, int) and unnamed.get(r, -1) < first_open
    ]
    lowest = min([v for v in last.values() if v is not None], default=None)
    if lowest is None:
        return []
    open_ops = pending.sort("collective_seq", "time_created_ns", "rank")
    first = open_ops.head(1) if silent else open_ops.filter(pl.col("collective_seq") > lowest).head(1)
    if first.is_empty():
        return []
    operation = operation_of(first.row(0, named=True))
    missing = sorted([*(r for r, seq in last.items() if seq < operation.seq), *silent])
    inside = open_ops.filter((pl.col("collective_seq") == operation.seq) & ~pl.col("rank").is_in(missing)).sort("rank")
    waiting = inside["rank"].unique(maintain_order=True).to_list()
    started = (pl.col("state") == "started") | pl.col("time_started_ns").is_not_null()
    if not missing or not inside.filter(started | ~pl.col("rank").is_in(timed)).height:
        return []
    issued = [last[r] for r in missing if r in last]
    return [Starved(group, operation, tuple(waiting), tuple(missing), max(issued) if issued else None)]


def silent_in(group: Group, pending: pl.DataFrame, dumped: frozenset[int]) -> list[Starved]:
    """A group whose dumped ranks, at least two and at least half, wait in one collective; others gave no dump."""
    members = set(group.members or ())
    here, absent = members & dumped, members - dumped
    if not absent or len(here) < 2 or len(here) * 2 < len(members):
        return []
    first = pending.sort("collective_seq", "time_created_ns", "rank").head(1)
    operation = operation_of(first.row(0, named=True))
    waiting = set(pending.filter(pl.col("collective_seq") == operation.seq)["rank"].to_list())
    if waiting != here:
        return []
    return [Starved(group, operation, tuple(sorted(waiting)), tuple(sorted(absent)), None)]


def lagging_in(group: Group, frame: pl.DataFrame, pending: pl.DataFrame) -> list[Lagging]:
    """A synchronising operation that some ranks finished and others, having issued it, did not."""
    finished = dict(zip(frame["rank"].to_list(), frame["finished"].to_list(), strict=True))
    ahead_seq = max(finished.values())
    behind = sorted(r for r, seq in finished.items() if seq < ahead_seq)
    if not behind:
        return []
    late = pending.filter(pl.col("rank").is_in(behind)).sort("collective_seq", "time_created_ns", "rank")
    late = late.filter((pl.col("collective_seq") <= ahead_seq) & pl.col("op").is_in(SYNCHRONISING))
    if late.is_empty():
        return []
    behind = sorted(set(late["rank"].to_list()))
    ahead = tuple(sorted(r for r, seq in finished.items() if r not in behind and seq >= ahead_seq))
    return [Lagging(group, operation_of(late.row(0, named=True)), tuple(behind), ahead, ahead_seq)]


def suspects_of(starved: Sequence[Starved], lagging: Sequence[Lagging]) -> tuple[int, ...]:
    """Ranks that explain the others: missing ones that do not themselves wait for a missing rank, and laggards."""
    waits_for: dict[int, set[int]] = {}
    missing = {r for s in starved for r in s.missing}
    for item in starved:
        for rank in item.waiting:
            waits_for.setdefault(rank, set()).update(item.missing)
    roots = {r for r in missing if not waits_for.get(r, set()) - {r}}
    if missing and not roots:
        roots = set(starved[0].missing)
    return tuple(sorted(roots | {r for item in lagging for r in item.behind}))
