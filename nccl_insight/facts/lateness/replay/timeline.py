"""What the GPUs of all ranks did, on one clock: the nodes of the replay.

A node is a kernel or a copy. Members of one collective, and the two sides of a transfer, share a *meeting*: none of
them ends before the last one has come. Meetings are those that the tables matched; kernels of other libraries, and
those without metadata, meet by their order: the n-th of a name in a step is the same operation on every rank, where
all ranks run it equally often and their ends agree.
"""

from __future__ import annotations

import heapq
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from nccl_insight.base.bandwidth import BY_TOKENS
from nccl_insight.base.data import dataclass
from nccl_insight.readers.kernels import COMM, OTHER
from nccl_insight.tables.run import Run

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

NODES: Final = {
    **dict.fromkeys(("rank", "stream", "step", "name", "meeting", "what", "received"), pl.Int64()),
    **dict.fromkeys(("start", "end", "launch"), pl.Float64()),
    **dict.fromkeys(("sends", "comm"), pl.Boolean()),
}
MOST_NODES: Final = 6_000_000
_ENDS_AGREE_NS: Final = 60_000
_ENDS_AGREE: Final = 0.25
_ENDS_NEAR_NS: Final = 15_000
_BESIDE_NS: Final = 1_000.0
_DRIFT_SAMPLES: Final = 12
_DRIFT_NS: Final = 20_000
_MOST_DRIFT: Final = 1e-3
_POINT_TO_POINT: Final = ("Send", "Recv")


@dataclass(frozen=True)
class Timeline:
    """Nodes sorted by rank and start. Times are nanoseconds on one clock, from the first start.

    ``rank``: index into ``ranks``; ``stream``: number of the stream, unique over ranks; ``step``: -1 in none; ``name``:
    a number of the kernel's name; ``meeting``: -1 where nobody else takes part. ``launch``: when the CPU launched it,
    on the same clock (NaN: not recorded). ``what``: a number of operation, size and direction of communication, -1 of
    the rest; ``received``: whether from a higher rank, 1 or 0, -1 where it receives nothing. ``sends``: whether it
    sends to one rank; ``comm``: whether it communicates, with partners recorded or not. ``groups``: per meeting ``op,
    size_bytes, process_group, members`` (ranks, recorded or not), ``pair``.
    """

    ranks: tuple[int, ...]
    hosts: tuple[str | None, ...]
    groups: tuple[Meeting, ...]
    unmatched: int
    rank: Ints
    stream: Ints
    step: Ints
    name: Ints
    start: Floats
    end: Floats
    launch: Floats
    meeting: Ints
    what: Ints
    received: Ints
    sends: Bools
    comm: Bools

    @staticmethod
    def of(
        nodes: pl.DataFrame,
        ranks: tuple[int, ...],
        hosts: tuple[str | None, ...],
        groups: tuple[Meeting, ...],
        unmatched: int,
    ) -> Timeline:
        """That of a frame with a column for each array."""
        arrays: dict[str, Any] = {name: nodes[name].cast(kind).to_numpy() for name, kind in NODES.items()}
        return Timeline(ranks, hosts, groups, unmatched, **arrays)

    @property
    def nodes(self) -> pl.DataFrame:
        """The arrays as columns."""
        return pl.DataFrame({name: getattr(self, name) for name in NODES})

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


class Refused(ValueError):
    """Why a job cannot be replayed: the name of the reason, and what its words ask for by name."""


def gpu_work(run: Run) -> pl.DataFrame:
    """What the GPUs did, with the meetings of its rows. Raises :class:`Refused`."""
    work = run.table("gpu_work").filter(pl.col("rank").is_not_null() & (pl.col("end_ns") >= pl.col("start_ns")))
    work = work.unique(["rank", "device", "stream", "start_ns", "end_ns", "name"], maintain_order=True)
    if work["rank"].n_unique() < 2:
        raise Refused("alone")
    return _met(run, work)


def timeline(run: Run, work: pl.DataFrame, coarse: bool = False) -> Timeline:
    """The nodes of a run. Raises :class:`Refused`.

    ``work``: of :func:`gpu_work` or, ``coarse``, of collectives alone, which CPUs leave at different times.
    """
    if work.height > MOST_NODES:
        raise Refused("many", {"n": work.height, "most": MOST_NODES})
    ranks = work["rank"].unique().sort().to_list()
    work = work.sort("rank", "start_ns", "end_ns")
    offset, slope, origin = _clocks(work, ranks)
    at = np.searchsorted(np.array(ranks), work["rank"].to_numpy())
    shift = offset[at] + slope[at] * (work["start_ns"].to_numpy() - origin)
    start = work["start_ns"].to_numpy() - shift
    end = work["end_ns"].to_numpy() - shift
    work, dropped = _agreeing(work, end)
    start, end = _without_breaks(work, start, end)
    first = float(start.min())
    meetings, groups = _meetings(work)
    if coarse:
        end = _left_together(meetings, len(groups), start, end)
        # The starts, for the work between two operations the moment when the one before it was left.
        frame = pl.DataFrame({"rank": at, "start": start, "end": end})
        before = pl.col("end").cum_max().shift(1).over("rank").fill_null(pl.col("start"))
        left = pl.min_horizontal(before, "end")
        start = np.asarray(np.where(meetings >= 0, start, frame.select(left).to_series().to_numpy()))
    op = pl.col("op")
    upwards = pl.when(op.is_in(_POINT_TO_POINT)).then(pl.col("peer") > pl.col("rank"))
    size = pl.when(~op.is_in(BY_TOKENS)).then("size_bytes")
    what = pl.struct(op, size, upwards.alias("upwards"), name=pl.when(op.is_null()).then("name")).rank("dense")
    lanes = work.select(pl.struct("rank", "device", "stream").rank("dense"))["rank"].to_numpy()
    nodes = work.select(
        rank=pl.Series(at),
        stream=pl.Series(_without_overlaps(lanes.astype(np.int64), start, end)),
        step=pl.col("step").fill_null(-1),
        name=pl.col("name").rank("dense"),
        start=pl.Series(start - first),
        end=pl.Series(end - first),
        launch=(pl.Series(start - first) - (pl.col("start_ns") - pl.col("launch_ns"))).fill_null(np.nan),
        meeting=pl.Series(meetings),
        what=pl.when(op.is_not_null() | pl.col("kind").is_in([COMM, OTHER])).then(what).fill_null(-1),
        received=pl.when(op == "Recv").then(pl.col("peer") > pl.col("rank")).cast(pl.Int64).fill_null(-1),
        sends=(op == "Send").fill_null(False),
        comm=pl.col("kind").is_in([COMM, OTHER]) | pl.col("meeting").is_not_null(),
    )
    hosts = dict(run.table("trace_info").select("rank", "host").drop_nulls().iter_rows())
    unmatched = int(work.filter((pl.col("kind") == COMM) & pl.col("meeting").is_null()).height) + dropped
    return Timeline.of(nodes, tuple(ranks), tuple(map(hosts.get, ranks)), groups, unmatched)


def _without_overlaps(lane: Ints, start: Floats, end: Floats) -> Ints:
    """The streams, with those apart in which operations run beside each other: they do not wait for each other."""
    frame = pl.DataFrame({"lane": lane, "start": start, "end": end})
    ended = pl.col("end").cum_max().shift(1).over("lane")
    rows = frame.with_row_index("row").with_columns(beside=pl.col("start") < ended - _BESIDE_NS)
    found = lane.copy()
    free = int(lane.max()) + 1
    for part in rows.filter(pl.col("beside").any().over("lane")).partition_by("lane", maintain_order=True):
        open_: list[tuple[float, int]] = [(-np.inf, int(part["lane"][0]))]
        for row, begin, until in part.select("row", "start", "end").iter_rows():
            at = next((i for i, (ended_at, _) in enumerate(open_) if ended_at <= begin + _BESIDE_NS), -1)
            if at < 0:
                open_.append((-np.inf, free))
                free += 1
            found[row] = open_[at][1]
            open_[at] = (until, open_[at][1])
    return np.asarray(found)


def _left_together(meetings: Ints, count: int, start: Floats, end: Floats) -> Floats:
    """The ends, for members of a meeting the moment when the first of them left, all having come.

    Where even that is late, as where clocks differ, the moment after the last start in which the shortest of them ran.
    """
    met = meetings >= 0
    last, least, left = np.full(count, -np.inf), np.full(count, np.inf), np.full(count, np.inf)
    np.maximum.at(last, meetings[met], start[met])
    np.minimum.at(least, meetings[met], (end - start)[met])
    np.minimum.at(left, meetings[met], end[met])
    together = np.minimum(np.maximum(left, last), last + least)
    return np.asarray(np.where(met, together[meetings], end)) if count else end


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
    rows = work.select("rank", "input_id").join(
        files, on=["rank", "input_id"], how="left", maintain_order="left", nulls_equal=True
    )
    turn = rows["turn"].to_numpy().astype(np.int64)
    breaks = np.maximum(turns["start"].to_numpy()[1:] - turns["end"].to_numpy()[:-1], 0.0)
    less = np.concatenate(([0.0], np.cumsum(breaks)))[turn - 1]
    return start - less, end - less


def _met(run: Run, work: pl.DataFrame) -> pl.DataFrame:
    """The rows with ``meeting, op, size_bytes, process_group, group_ranks, peer``."""
    table = run.table("collectives")
    keys = ["rank", "device", "stream", "start_ns", "end_ns"]
    wanted = ["match_id", "op", "size_bytes", "process_group", "group_ranks", "peer"]
    known = (
        table.filter(pl.col("source").cast(pl.String) == "kernel")
        .with_columns(pl.col("op").cast(pl.String), end_ns=pl.col("start_ns") + pl.col("duration_ns"))
        .select(*keys, *wanted)
        .unique(keys, keep="first", maintain_order=True)
    )
    rows = work.join(known, on=keys, how="left", nulls_equal=True, maintain_order="left")
    rows = rows.sort("rank", "start_ns").with_columns(
        alone=pl.col("match_id").is_null() & pl.col("kind").is_in([COMM, OTHER])
    )
    place = ("step", "name", "alone")
    rows = rows.with_columns(n=pl.len().over("rank", *place), order=pl.int_range(pl.len()).over("rank", *place))
    all_ranks = pl.col("rank").n_unique().over(place) == work["rank"].n_unique()
    even = pl.col("alone") & all_ranks & (pl.col("n").min().over(place) == pl.col("n").max().over(place))
    by_order = pl.struct("step", "name", "order")
    base = known.select(pl.col("match_id").cast(pl.Int64).max().fill_null(0)).item() + 1
    return rows.with_columns(
        meeting=pl.when(pl.col("match_id").is_not_null())
        .then(pl.col("match_id").cast(pl.Int64))
        .when(even)
        .then(by_order.rank("dense").cast(pl.Int64) + base),
        by_order=pl.col("match_id").is_null(),
    ).drop("match_id", "n", "order", "alone")


def _clocks(work: pl.DataFrame, ranks: list[int]) -> tuple[Floats, Floats, float]:
    """Per rank what its clock is ahead of the first rank's: offset and drift around an origin.

    Members of a meeting end together. Ranks are reached over the pairs that met most often, known meetings first.
    """
    rows = work.filter(pl.col("meeting").is_not_null()).select(
        "rank",
        "meeting",
        "end_ns",
        "by_order",
        name=pl.when("by_order").then("name"),
        pair=pl.col("op").is_in(_POINT_TO_POINT).fill_null(False),
    )
    first = rows.group_by("meeting").agg(a=pl.col("rank").min(), at=pl.col("end_ns").get(pl.col("rank").arg_min()))
    both = rows.join(first, on="meeting").filter(pl.col("rank") != pl.col("a"))
    origin = float(rows["end_ns"].min() or 0)  # type: ignore[arg-type]
    pairs = (
        both.sort("at")
        .group_by("a", "rank", "by_order", "name")
        .agg(pl.col("at"), ahead=pl.col("end_ns") - pl.col("at"), pair=pl.col("pair").all(), n=pl.len())
    )
    # Meetings by order may be those of parts of the ranks, which differ less than others do.
    near: dict[int, list[tuple[bool, bool, float, int, float, float]]] = {}
    for a, b, by_order, _, at, ahead, pair, n in pairs.iter_rows():
        when, off = np.asarray(at, float) - origin, np.asarray(ahead, float)
        offset, slope = _line(when, off)
        if abs(slope) > _MOST_DRIFT:
            continue  # no clock: they only do the same
        weight = float(np.median(np.abs(off - offset - slope * when))) if by_order else -float(n)
        near.setdefault(a, []).append((by_order, pair, weight, b, offset, slope))
        near.setdefault(b, []).append((by_order, pair, weight, a, -offset, -slope))
    found: dict[int, tuple[float, float]] = {}
    reached = 0
    for begin in ranks:
        queue = [(False, False, 0.0, begin, 0.0, 0.0)]
        while queue:
            *_, rank, offset, slope = heapq.heappop(queue)
            if rank not in found:
                found[rank] = offset, slope
                for by_order, pair, weight, b, more, steeper in near.get(rank, ()):
                    heapq.heappush(queue, (by_order, pair, weight, b, offset + more, slope + steeper))
        reached = reached or len(found)
    if reached < max(2, 0.5 * len(ranks)):
        raise Refused("never-met")
    offsets = np.array([found[r] for r in ranks])
    offsets[np.abs(offsets[:, 0]) < _DRIFT_NS, 0] = 0.0
    return offsets[:, 0], offsets[:, 1], origin


def _line(at: Floats, ahead: Floats) -> tuple[float, float]:
    """Offset and slope of a clock against another; without enough samples, or a change that matters, no slope."""
    middle = float(np.median(ahead))
    half = len(at) // 2
    if len(at) >= _DRIFT_SAMPLES and at[-1] > at[0]:
        early, late = float(np.median(ahead[:half])), float(np.median(ahead[half:]))
        apart = float(np.median(at[half:]) - np.median(at[:half]))
        # Half of what a steady drift shows is the least that is no scatter, as of operations that CPUs run.
        scatter = float(np.median(np.abs(np.concatenate((ahead[:half] - early, ahead[half:] - late)))))
        if apart > 0 and abs(late - early) > max(_DRIFT_NS, 2 * scatter):
            slope = (late - early) / apart
            return float(np.median(ahead - slope * at)), slope
    return middle, 0.0


def _agreeing(work: pl.DataFrame, end: Floats) -> tuple[pl.DataFrame, int]:
    """Meetings by order only of ranks that end them together on the common clock: of all, or of groups of them."""
    rows = (
        work.with_columns(aligned=pl.Series(end))
        .with_row_index("row")
        .filter("by_order", pl.col("meeting").is_not_null())
    )
    groups: list[tuple[int, int, int]] = []
    for (name,), part in rows.group_by("name"):
        took = float(part.select((pl.col("end_ns") - pl.col("start_ns")).median()).item())
        ends = part.pivot("rank", index="meeting", values="aligned").drop("meeting")
        ranks = [int(column) for column in ends.columns]
        matrix = ends.to_numpy()
        near = max(_ENDS_AGREE_NS, _ENDS_AGREE * took)
        if float(np.median(np.ptp(matrix, axis=1))) > near:
            near = max(_ENDS_NEAR_NS, _ENDS_AGREE * took)
        left = list(range(len(ranks)))
        while left:
            apart = np.median(np.abs(matrix[:, left] - matrix[:, left[:1]]), axis=0)
            met = [r for r, off in zip(left, apart, strict=True) if off <= near]
            groups += [(int(str(name)), ranks[r], ranks[met[0]]) for r in met if len(met) > 1]
            left = [r for r in left if r not in met]
    schema = {"name": pl.UInt64, "rank": pl.Int32, "met_with": pl.Int32}
    known = pl.DataFrame(groups, schema=schema, orient="row")
    found = work.join(known, on=["name", "rank"], how="left", maintain_order="left")
    alone = pl.col("by_order") & pl.col("met_with").is_null()
    meeting = pl.struct("meeting", pl.when("by_order").then("met_with")).rank("dense").cast(pl.Int64)
    dropped = found.filter(alone & pl.col("meeting").is_not_null() & (pl.col("kind") == COMM)).height
    return found.with_columns(meeting=pl.when(pl.col("meeting").is_not_null() & ~alone).then(meeting)).drop(
        "met_with"
    ), dropped


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
