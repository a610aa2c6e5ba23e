"""Processes of the inputs, from their first to their last line that any small table knows."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence, Set
from itertools import pairwise, repeat
from operator import attrgetter
from typing import Any, Final, TypeAlias

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.grouping import grouped
from nccl_insight.facts.who.parts.rows import END
from nccl_insight.tables.run import Run, fact

_PROCESS: Final = ("input_id", "host", "pid")
_OF_RANKS: Final = ("rank", "nranks", "line", "comm_id", "bus_id", "init_complete", "destroyed")
Gpu: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class Process:
    """A process in an input, from its first to its last line that any small table knows."""

    key: tuple[str | None, int | None, int]
    first: int
    last: int
    version: bool = False
    ranks: Set[tuple[int, int]] = frozenset()
    comms: Set[str] = frozenset()
    gpus: Set[Gpu] = frozenset()
    open: bool = False
    closed: bool = False


@fact
def processes_of(run: Run) -> Mapping[int, Sequence[Process]]:
    """Processes by input in the order of their first lines; a number that was used again stands for two."""
    ranks = run.table("ranks").drop_nulls(["rank", "nranks", "line"])
    key = list(_PROCESS)
    told = (
        *zip(repeat(ranks), ("line", "init_started_line", "init_completed_line", "destroyed_line")),
        *zip(map(run.table, ("processes", "errors", "versions", "networks")), repeat("line")),
    )
    lines = [frame.select(*key, pl.col(c).cast(pl.Int64).alias("line")) for frame, c in told]
    banners = run.table("versions").drop_nulls(["nccl_version", "pid"]).select(*key, "line")
    starts = grouped(((i, host, pid), int(line)) for i, host, pid, line in banners.iter_rows())
    members = grouped((row[: len(key)], row[len(key) :]) for row in ranks.select(*key, *_OF_RANKS).iter_rows())
    # NCCL names its version once per process, on rank 0 only: there the other ranks began again, too.
    again = grouped((at[0], line) for at, lines in starts.items() for line in sorted(lines)[1:])
    # Taking a list out of a frame costs more than all else of a process.
    extents = (
        pl.concat(lines, how="vertical_relaxed")
        .drop_nulls(["line", "pid", "input_id"])
        .group_by(key, maintain_order=True)
        .agg([pl.col("line").unique().sort()] if again else [pl.min("line"), pl.max("line").alias("end")])
    )
    found: dict[int, list[Process]] = {}
    for input_id, host, pid, *ends in extents.iter_rows():
        seen = ends if len(ends) > 1 else ends[0]
        rows, versions = members.get((input_id, host, pid), []), starts.get((input_id, host, pid), ())
        lives = lives_of(rows, sorted(again.get(input_id, ()))) if again and len(rows) > 1 else ()
        for n, (begin, end) in enumerate(pairwise([0, *lives, END])):
            own = [line for line in seen if begin <= line < end] if lives else seen
            if own:
                inside = [row for row in rows if begin <= row[2] < end]
                version = any(begin <= line < end for line in versions)
                found.setdefault(input_id, []).append(_process((host, pid, n), own, version, inside))
    return {i: sorted(own, key=attrgetter("first")) for i, own in found.items()}


def _process(
    key: tuple[str | None, int | None, int], lines: Sequence[int], version: bool, rows: Sequence[tuple[Any, ...]]
) -> Process:
    """A process by its lines and its rows of ``ranks``."""
    return Process(
        key,
        lines[0],
        lines[-1],
        version,
        {(rank, nranks) for rank, nranks, *_ in rows},
        {comm_id for _, _, _, comm_id, *_ in rows if comm_id},
        {(key[0], bus_id) for *_, bus_id, _, _ in rows if key[0] and bus_id},
        not all(complete for *_, complete, _ in rows),
        all(destroyed not in (None, "no") for *_, destroyed in rows),
    )


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
