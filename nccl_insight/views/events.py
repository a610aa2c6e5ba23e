"""The collectives of all ranks on one clock, with who waited for whom, and steps."""

from typing import NamedTuple

import numpy as np
import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.tables.run import Run

_LEAST_WAIT_NS = 1_000
_END = pl.col("start_ns") + pl.col("duration_ns")


class Lane(NamedTuple):
    """A stream of a rank, numbered from 1; ``stream`` is None where it is not known."""

    rank: int
    stream: str | None
    lane: int


class Collective(NamedTuple):
    """A row of ``collectives`` in its lane."""

    rank: int
    lane: int
    start_ns: int
    duration_ns: int
    op: str | None
    process_group: str | None
    seq: int | None
    size_bytes: int | None
    wait_ns: int | None
    busbw_gbps: float | None
    peer: int | None
    step: int | None
    match_id: int | None


class Arrow(NamedTuple):
    """``at_ns``: the start of the last to arrive, in a collective in which another rank waited for it."""

    last_rank: int
    last_lane: int
    at_ns: int
    rank: int
    lane: int
    start_ns: int
    end_ns: int


class Step(NamedTuple):
    """A step of a rank."""

    rank: int
    step: int
    start_ns: int
    duration_ns: int | None


class Leg(NamedTuple):
    """A piece of the critical path: what a rank did until it came last (``op`` None), or a transfer."""

    rank: int
    op: str | None
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Events:
    """All of a run; ``origin_ns``: the first start; ``path``: what had to be faster for the end to come earlier."""

    origin_ns: int
    lanes: tuple[Lane, ...]
    collectives: tuple[Collective, ...]
    arrows: tuple[Arrow, ...]
    steps: tuple[Step, ...]
    path: tuple[Leg, ...] = ()


def events(run: Run) -> Events | None:
    """The events of a run, None where no collective has a rank and a time."""
    table = run.table("collectives").filter(
        pl.col("rank").is_not_null() & pl.col("start_ns").is_not_null() & (pl.col("duration_ns") >= 0)
    )
    if table.is_empty():
        return None
    table = _on_one_clock(run, table).sort("rank", "start_ns")
    lanes = (
        table.select("rank", "device", "stream").unique().sort("rank", "device", "stream", nulls_last=False)
    ).with_columns(lane=pl.int_range(1, pl.len() + 1).over("rank"))
    table = table.join(lanes, on=["rank", "device", "stream"], nulls_equal=True, maintain_order="left")
    steps = _steps(run)
    return Events(
        # Viewers drop what lies before the beginning of time.
        min(int(str(frame["start_ns"].min())) for frame in (table, steps) if frame.height),
        tuple(Lane(*row) for row in lanes.select(Lane._fields).iter_rows()),
        tuple(Collective(*row) for row in table.select(Collective._fields).iter_rows()),
        tuple(Arrow(*row) for row in _arrows(table).iter_rows()),
        tuple(Step(*row) for row in steps.iter_rows()),
        tuple(_path(table)),
    )


def _on_one_clock(run: Run, table: pl.DataFrame) -> pl.DataFrame:
    """Times without the constant offset of each rank's clock, where the clocks are not the same."""
    clocks = run.table("trace_clocks")
    if clocks["comparable"].all():
        return table
    return (
        table.join(clocks.select("rank", "offset_ns"), on="rank", how="left", maintain_order="left")
        .with_columns(pl.col("start_ns") - pl.col("offset_ns").fill_null(0))
        .drop("offset_ns")
    )


def _arrows(table: pl.DataFrame) -> pl.DataFrame:
    """From the start of the last to arrive to every rank that waited for it."""
    matched = table.filter(pl.col("match_id").is_not_null() & pl.col("wait_ns").is_not_null())
    last = matched.sort("wait_ns", "rank").unique("match_id", keep="first", maintain_order=True)
    last = last.select("match_id", last_rank="rank", last_lane="lane", at="start_ns")
    waiting = matched.filter(pl.col("wait_ns") >= _LEAST_WAIT_NS).join(last, on="match_id")
    return waiting.filter(
        (pl.col("rank") != pl.col("last_rank")) & pl.col("at").is_between("start_ns", _END, closed="none")
    ).select("last_rank", "last_lane", "at", "rank", "lane", "start_ns", end=_END)


def _path(table: pl.DataFrame) -> list[Leg]:
    """From the end of the last matched operation back: its transfer, the work of the rank that came last to it, the
    operation that this rank had left before, and so on. What compute hid held nobody up."""
    rows = table.filter(pl.col("match_id").is_not_null() & pl.col("wait_ns").is_not_null())
    rows = rows.select("match_id", "rank", "op", "start_ns", "wait_ns", "exposed_ns", end=_END).sort("end")
    last = rows.sort("wait_ns", "rank").unique("match_id", keep="first", maintain_order=True)
    came = {match: leg for match, *leg in last.select("match_id", "rank", "op", "start_ns", "end").iter_rows()}
    bound = rows.filter(pl.col("exposed_ns").is_null() | (pl.col("exposed_ns") > 0))
    left = {
        int(part["rank"][0]): (part["end"].to_numpy(), part["match_id"].to_list())
        for part in bound.partition_by("rank", maintain_order=True)
    }
    legs: list[Leg] = []
    match = bound["match_id"][-1] if bound.height else None
    while match in came:  # each once: clocks that differ, and operations without length, may lead back to one
        rank, op, start, end = came.pop(match)
        legs.append(Leg(rank, op or "communication", start, end))
        ends, matches = left.get(rank, ((), ()))
        before = int(np.searchsorted(ends, start, side="right")) - 1
        match = matches[before] if before >= 0 else None
        if match is not None and ends[before] < start:
            legs.append(Leg(rank, None, int(ends[before]), start))
    return legs[::-1]


def _steps(run: Run) -> pl.DataFrame:
    """``rank, step, start_ns, duration_ns`` of the steps, on the clock of the collectives."""
    rows = run.table("steps").filter(
        pl.col("rank").is_not_null() & pl.col("step").is_not_null() & pl.col("start_ns").is_not_null()
    )
    return (
        _on_one_clock(run, rows)
        .group_by("rank", "step")
        .agg(pl.col("start_ns").min(), pl.col("duration_ns").max())
        .sort("rank", "start_ns")
    )
