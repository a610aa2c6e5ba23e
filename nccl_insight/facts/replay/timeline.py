"""What the GPUs of all ranks did, on one clock: the nodes of the replay.

A node is a kernel or a copy. Members of one collective, and the two sides of a transfer, share a *meeting*: none of
them ends before the last one has come. Meetings are those that the tables matched; kernels of other libraries, and
those without metadata, meet by their order: the n-th of a name in a step is the same operation on every rank, where
all ranks run it equally often and their ends agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from nccl_insight.readers.kernels import COMM, OTHER
from nccl_insight.tables.run import Run

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

MOST_NODES: Final = 6_000_000
_ENDS_AGREE_NS: Final = 60_000
_ENDS_AGREE: Final = 0.25
_DRIFT_SAMPLES: Final = 12
_DRIFT_NS: Final = 20_000
_POINT_TO_POINT: Final = ("Send", "Recv")


@dataclass(frozen=True)
class Timeline:
    """Nodes sorted by rank and start. Times are nanoseconds on one clock, from the first start.

    ``rank``: index into ``ranks``; ``stream``: number of the stream, unique over ranks; ``step``: -1 in none;
    ``name``: a number of the kernel's name; ``meeting``: -1 where nobody else takes part.
    ``sends``: whether it sends to one rank; ``comm``: whether it communicates, with partners recorded or not.
    ``groups``: per meeting ``op, size_bytes, process_group, members`` (ranks, recorded or not), ``pair``.
    """

    ranks: tuple[int, ...]
    hosts: tuple[str | None, ...]
    rank: Ints
    stream: Ints
    step: Ints
    name: Ints
    start: Floats
    end: Floats
    meeting: Ints
    sends: Bools
    comm: Bools
    groups: tuple[Meeting, ...]
    unmatched: int

    @property
    def steps(self) -> int:
        """Number of recorded steps, at least 1."""
        return max(int(np.unique(self.step[self.step >= 0]).size), 1)


@dataclass(frozen=True)
class Meeting:
    """What the members of a meeting say about it."""

    op: str
    size_bytes: int | None
    group: str | None
    members: tuple[int, ...]
    recorded: int

    @property
    def pair(self) -> bool:
        """Whether it is a transfer between two ranks."""
        return self.op in _POINT_TO_POINT


def timeline(run: Run) -> Timeline | str:
    """The nodes of a run, or why there are none to replay."""
    if not run.has("gpu_work"):
        return "no trace with GPU activity"
    if run.table("trace_info")["job"].n_unique() > 1:
        return "traces of several jobs"
    work = run.table("gpu_work").filter(pl.col("rank").is_not_null() & (pl.col("end_ns") >= pl.col("start_ns")))
    work = work.unique(["rank", "device", "stream", "start_ns", "end_ns", "name"], maintain_order=True)
    ranks = work["rank"].unique().sort().to_list()
    if len(ranks) < 2:
        return "the trace of one rank alone"
    if work.height > MOST_NODES:
        return f"{work.height:,} GPU events, more than are replayed ({MOST_NODES:,})"
    work = _met(run, work).sort("rank", "start_ns", "end_ns")
    clock = _clocks(work, ranks)
    if clock is None:
        return "the ranks never meet in what was recorded"
    offset, slope, origin = clock
    at = np.searchsorted(np.array(ranks), work["rank"].to_numpy())
    shift = offset[at] + slope[at] * (work["start_ns"].to_numpy() - origin)
    start = work["start_ns"].to_numpy() - shift
    end = work["end_ns"].to_numpy() - shift
    work, dropped = _agreeing(work, end)
    start, end = _without_breaks(work, start, end)
    first = float(start.min())
    meetings, groups = _meetings(work)
    lanes = work.select(pl.struct("rank", "device", "stream").rank("dense"))["rank"].to_numpy()
    return Timeline(
        ranks=tuple(ranks),
        hosts=tuple(_hosts(run, ranks)),
        rank=at.astype(np.int64),
        stream=lanes.astype(np.int64),
        step=work["step"].fill_null(-1).to_numpy().astype(np.int64),
        name=work["name"].rank("dense").to_numpy().astype(np.int64),
        start=start - first,
        end=end - first,
        meeting=meetings,
        sends=(work["op"] == "Send").fill_null(False).to_numpy(),
        comm=((work["kind"] == COMM) | work["meeting"].is_not_null()).to_numpy(),
        groups=groups,
        unmatched=int(work.filter((pl.col("kind") == COMM) & pl.col("meeting").is_null()).height) + dropped,
    )


def _without_breaks(work: pl.DataFrame, start: Floats, end: Floats) -> tuple[Floats, Floats]:
    """Times without the breaks between recordings: a profiler's schedule that repeats writes several files a rank."""
    files = (
        work.select("rank", "input_id", start=pl.Series(start), end=pl.Series(end))
        .group_by("rank", "input_id")
        .agg(pl.col("start").min(), pl.col("end").max())
    )
    files = files.with_columns(turn=pl.col("start").rank("ordinal").over("rank"))
    turns = files.group_by("turn").agg(pl.col("start").min(), pl.col("end").max()).sort("turn")
    if turns.height < 2:
        return start, end
    rows = work.select("rank", "input_id").join(files, on=["rank", "input_id"], how="left", maintain_order="left")
    turn = rows["turn"].to_numpy().astype(np.int64)
    breaks = np.maximum(turns["start"].to_numpy()[1:] - turns["end"].to_numpy()[:-1], 0.0)
    less = np.concatenate(([0.0], np.cumsum(breaks)))[turn - 1]
    return start - less, end - less


def _hosts(run: Run, ranks: list[int]) -> list[str | None]:
    known = dict(run.table("trace_info").select("rank", "host").drop_nulls().iter_rows())
    return [known.get(rank) for rank in ranks]


def _met(run: Run, work: pl.DataFrame) -> pl.DataFrame:
    """The rows with ``meeting, op, size_bytes, process_group, group_ranks, peer``."""
    table = run.table("collectives")
    keys = ["rank", "device", "stream", "start_ns"]
    wanted = ["match_id", "op", "size_bytes", "process_group", "group_ranks", "peer"]
    known = (
        table.filter(pl.col("source").cast(pl.String) == "kernel")
        .select(*keys, *wanted)
        .with_columns(pl.col("op").cast(pl.String))
        .unique(keys, keep="first", maintain_order=True)
    )
    rows = work.join(known, on=keys, how="left", nulls_equal=True, maintain_order="left")
    alone = pl.col("match_id").is_null() & pl.col("kind").is_in([COMM, OTHER])
    order = pl.int_range(pl.len()).over("rank", "step", "name", alone)
    rows = rows.sort("rank", "start_ns").with_columns(alone=alone, order=pl.when(alone).then(order))
    counts = (
        rows.filter("alone")
        .group_by("step", "name", "rank")
        .agg(n=pl.len())
        .group_by("step", "name")
        .agg(ranks=pl.len(), least=pl.col("n").min(), most=pl.col("n").max())
    )
    even = counts.filter((pl.col("ranks") == work["rank"].n_unique()) & (pl.col("least") == pl.col("most")))
    even = even.select("step", "name", even=pl.lit(True))
    rows = rows.join(even, on=["step", "name"], how="left", nulls_equal=True, maintain_order="left")
    by_order = pl.struct("step", "name", "order")
    base = known.select(pl.col("match_id").cast(pl.Int64).max().fill_null(0)).item() + 1
    return rows.with_columns(
        meeting=pl.when(pl.col("match_id").is_not_null())
        .then(pl.col("match_id").cast(pl.Int64))
        .when(pl.col("alone") & pl.col("even").fill_null(False))
        .then(by_order.rank("dense").cast(pl.Int64) + base),
        by_order=pl.col("match_id").is_null(),
    ).drop("match_id", "even", "order", "alone")


def _clocks(work: pl.DataFrame, ranks: list[int]) -> tuple[Floats, Floats, float] | None:
    """Per rank what its clock is ahead of the first rank's: offset and drift around an origin; None: they never meet.

    Members of a meeting end together. Ranks are reached over the meetings that most ranks share, breadth first.
    """
    rows = work.filter(pl.col("meeting").is_not_null()).select(
        "rank", "meeting", "end_ns", pair=pl.col("op").is_in(_POINT_TO_POINT).fill_null(False)
    )
    first = rows.group_by("meeting").agg(
        pl.col("rank").min().alias("a"), at=pl.col("end_ns").get(pl.col("rank").arg_min())
    )
    both = rows.join(first, on="meeting").filter(pl.col("rank") != pl.col("a"))
    origin = float(rows["end_ns"].min() or 0)  # type: ignore[arg-type]
    pairs = (
        both.sort("at")
        .group_by("a", "rank")
        .agg(pl.col("at"), ahead=pl.col("end_ns") - pl.col("at"), pair=pl.col("pair").all(), n=pl.len())
        .sort("pair", "n", descending=[False, True])
    )
    near: dict[int, list[tuple[int, float, float]]] = {}
    for a, b, at, ahead, _, _ in pairs.iter_rows():
        offset, slope = _line(np.asarray(at, float) - origin, np.asarray(ahead, float))
        near.setdefault(a, []).append((b, offset, slope))
        near.setdefault(b, []).append((a, -offset, -slope))
    found: dict[int, tuple[float, float]] = {ranks[0]: (0.0, 0.0)}
    queue = [ranks[0]]
    for a in queue:
        for b, offset, slope in near.get(a, ()):
            if b not in found:
                found[b] = (found[a][0] + offset, found[a][1] + slope)
                queue.append(b)
    if len(found) < max(2, 0.5 * len(ranks)):
        return None
    offsets = np.array([found.get(r, (0.0, 0.0)) for r in ranks])
    offsets[np.abs(offsets[:, 0]) < _DRIFT_NS, 0] = 0.0
    return offsets[:, 0], offsets[:, 1], origin


def _line(at: Floats, ahead: Floats) -> tuple[float, float]:
    """Offset and slope of a clock against another; without enough samples, or a change that matters, no slope."""
    middle = float(np.median(ahead))
    half = len(at) // 2
    if len(at) >= _DRIFT_SAMPLES and at[-1] > at[0]:
        early, late = float(np.median(ahead[:half])), float(np.median(ahead[half:]))
        apart = float(np.median(at[half:]) - np.median(at[:half]))
        if apart > 0 and abs(late - early) > _DRIFT_NS:
            slope = (late - early) / apart
            return float(np.median(ahead - slope * at)), slope
    return middle, 0.0


def _agreeing(work: pl.DataFrame, end: Floats) -> tuple[pl.DataFrame, int]:
    """Without the meetings by order whose members do not end together on the common clock."""
    ends = work.with_columns(aligned=pl.Series(end))
    spread = (
        ends.filter("by_order", pl.col("meeting").is_not_null())
        .group_by("name", "meeting")
        .agg(
            spread=pl.col("aligned").max() - pl.col("aligned").min(),
            took=(pl.col("end_ns") - pl.col("start_ns")).median(),
        )
        .group_by("name")
        .agg(spread=pl.col("spread").median(), took=pl.col("took").median())
    )
    apart = spread.filter(pl.col("spread") > pl.max_horizontal(_ENDS_AGREE_NS, _ENDS_AGREE * pl.col("took")))
    if apart.is_empty():
        return work, 0
    wrong = pl.col("name").is_in(apart["name"].implode()) & pl.col("by_order")
    dropped = work.filter(wrong & (pl.col("kind") == COMM)).height
    return work.with_columns(meeting=pl.when(~wrong).then("meeting")), dropped


def _meetings(work: pl.DataFrame) -> tuple[Ints, tuple[Meeting, ...]]:
    """Number of the meeting of each row (-1: none, or nobody else was recorded), and what is known of each."""
    shared = (
        work.filter(pl.col("meeting").is_not_null())
        .group_by("meeting")
        .agg(
            ranks=pl.col("rank").unique().sort(),
            n=pl.len(),
            op=pl.col("op").sort().first(),
            size=pl.col("size_bytes").max(),
            group=pl.col("process_group").first(),
            members=pl.col("group_ranks").drop_nulls().first(),
            name=pl.col("name").first(),
        )
        .filter((pl.col("n") > 1) & (pl.col("ranks").list.len() == pl.col("n")))
        .sort("meeting")
        .with_row_index("number")
    )
    rows = work.select("meeting").join(
        shared.select("meeting", "number"), on="meeting", how="left", maintain_order="left"
    )
    numbers = rows["number"].cast(pl.Int64).fill_null(-1).to_numpy()
    return numbers.astype(np.int64), tuple(_meeting(row) for row in shared.iter_rows(named=True))


def _meeting(row: dict[str, Any]) -> Meeting:
    op = row["op"] or f"kernel {row['name']}"
    members = row["ranks"] if op in _POINT_TO_POINT else row["members"] or row["ranks"]
    return Meeting("Send" if op in _POINT_TO_POINT else op, row["size"], row["group"], tuple(members), row["n"])
