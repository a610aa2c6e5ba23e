"""Processes of the inputs, from their first to their last line that any small table knows."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

import polars as pl

from nccl_insight.base.data import dataclass, field
from nccl_insight.base.grouping import grouped
from nccl_insight.facts.who.parts.rows import END
from nccl_insight.tables.run import Run, fact

_PROCESS: Final = ("input_id", "host", "pid")
_OF_RANKS: Final = ("rank", "nranks", "line", "comm_id", "bus_id", "init_complete", "destroyed")
Gpu: TypeAlias = tuple[str, str]


@dataclass
class Process:
    """A process in an input, from its first to its last line that any small table knows."""

    key: tuple[str | None, int | None, int]
    first: int
    last: int
    version: bool = False
    ranks: set[tuple[int, int]] = field(default_factory=set)
    comms: set[str] = field(default_factory=set)
    gpus: set[Gpu] = field(default_factory=set)
    open: bool = False
    closed: bool = False


@fact
def processes_of(run: Run) -> Mapping[int, Sequence[Process]]:
    """Processes by input in the order of their first lines; a number that was used again stands for two."""
    ranks = run.table("ranks").drop_nulls(["rank", "nranks", "line"])
    key = list(_PROCESS)
    lines = [
        *(
            ranks.select(*key, pl.col(c).cast(pl.Int64).alias("line"))
            for c in ("line", "init_started_line", "init_completed_line", "destroyed_line")
        ),
        *(
            run.table(name).select(*key, pl.col("line").cast(pl.Int64))
            for name in ("processes", "errors", "versions", "networks")
        ),
    ]
    banners = run.table("versions").drop_nulls(["nccl_version", "pid"]).select(*key, "line")
    starts = grouped(((i, host, pid), int(line)) for i, host, pid, line in banners.iter_rows())
    members = grouped((row[: len(key)], row[len(key) :]) for row in ranks.select(*key, *_OF_RANKS).iter_rows())
    # NCCL names its version once per process, on rank 0 only: there the other ranks began again, too.
    again: dict[int, list[int]] = {}
    for (input_id, _, _), told in starts.items():
        again.setdefault(input_id, []).extend(sorted(told)[1:])
    again = {input_id: sorted(told) for input_id, told in again.items()}
    # Taking a list out of a frame costs more than all else of a process.
    extents = (
        pl.concat(lines, how="vertical_relaxed")
        .drop_nulls(["line", "pid", "input_id"])
        .group_by(key, maintain_order=True)
        .agg([pl.col("line").unique().sort()] if any(again.values()) else [pl.min("line"), pl.max("line").alias("end")])
    )
    found: dict[int, list[Process]] = {}
    for input_id, host, pid, *ends in extents.iter_rows():
        seen = ends if len(ends) > 1 else ends[0]
        rows = members.get((input_id, host, pid), [])
        lines_again = again.get(input_id)
        lives = lives_of(rows, lines_again) if lines_again and len(rows) > 1 else ()
        versions = starts.get((input_id, host, pid), ())
        for n, (begin, end) in enumerate(pairwise([0, *lives, END])):
            own = [line for line in seen if begin <= line < end] if lives else seen
            if not own:
                continue
            process = Process((host, pid, n), own[0], own[-1], closed=True)
            process.version = any(begin <= line < end for line in versions) if versions else False
            for rank, nranks, line, comm_id, bus_id, complete, destroyed in rows:
                if not begin <= line < end:
                    continue
                process.ranks.add((rank, nranks))
                if comm_id:
                    process.comms.add(comm_id)
                if host and bus_id:
                    process.gpus.add((host, bus_id))
                process.open |= not complete
                process.closed &= destroyed not in (None, "no")
            found.setdefault(input_id, []).append(process)
    return {i: sorted(own, key=lambda p: p.first) for i, own in found.items()}


def lives_of(rows: Sequence[tuple[Any, ...]], lines: Sequence[int]) -> list[int]:
    """Those of the lines, which are sorted, before and behind which the same rank of a process comes.

    ``rows``: rank, number of ranks and line, and whatever else.
    """
    extents: dict[tuple[int, int], tuple[int, int]] = {}
    for number, nranks, at, *_ in rows:
        rank = (number, nranks)
        first, last = extents.get(rank, (at, at))
        extents[rank] = min(first, at), max(last, at)
    found: list[int] = []
    done = 0
    for first, last in sorted(extents.values()):
        begin, end = max(done, bisect_right(lines, first)), bisect_right(lines, last)
        found += lines[begin:end]
        done = max(done, end)
    return sorted(set(found))
