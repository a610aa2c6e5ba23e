"""Arithmetic on sets of time intervals: unions per device, and how much of other intervals they cover.

The lanes (devices, steps of devices) are laid one behind the other on one line of whole numbers, which one sorted
column of numpy tells apart. Where lanes and times are too far apart for 64 bits, times are numbered in their order.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import polars as pl

_Numbers: TypeAlias = npt.NDArray[np.int64]

_LONGEST: Final = 1 << 62


def union(frame: pl.DataFrame, by: str = "device") -> pl.DataFrame:
    """Disjoint intervals that cover the same time, per ``by``.

    Reads ``by, start_ns, end_ns``; gives ``by, start_ns, end_ns, before_ns`` sorted by lane (null first) and start,
    ``before_ns`` being the covered time of that ``by`` before the interval. Fastest on rows that are sorted so.
    """
    none = frame[by].null_count() > 0
    lane, start, end = (_numbers(frame[name]) for name in (by, "start_ns", "end_ns"))
    kept = end > start
    for name in ("start_ns", "end_ns"):
        if frame[name].null_count():
            kept &= frame[name].is_not_null().to_numpy()
    if not kept.all():
        lane, start, end = lane[kept], start[kept], end[kept]
    at, reach = _line([lane, lane], [start, end])
    if (at[1:] < at[:-1]).any():
        order = np.argsort(at, kind="stable")
        at, reach, lane, start, end = at[order], reach[order], lane[order], start[order], end[order]
    begins = np.ones(len(at), dtype=bool)
    begins[1:] = at[1:] > np.maximum.accumulate(reach)[:-1]
    heads = np.flatnonzero(begins)
    lane, start = lane[heads], start[heads]
    end = np.maximum.reduceat(end, heads) if len(heads) else end
    before = np.cumsum(end - start) - (end - start)
    first = np.ones(len(lane), dtype=bool)
    first[1:] = lane[1:] != lane[:-1]
    before -= before[np.flatnonzero(first)][np.cumsum(first) - 1]
    lanes = pl.Series(by, lane)
    return pl.DataFrame(
        [
            (lanes.replace(_nowhere(frame[by]), None) if none else lanes).cast(frame.schema[by]),
            pl.Series("start_ns", start),
            pl.Series("end_ns", end),
            pl.Series("before_ns", before),
        ]
    )


def held(rows: pl.DataFrame, where: Sequence[str], **lengths: pl.Expr) -> pl.DataFrame:
    """Per ``where`` the time in which at least one of the rows holds, by name: each from ``start_ns`` so long."""
    lanes = rows.select(where).unique(maintain_order=True).with_row_index("lane")
    rows = rows.join(lanes, on=where, nulls_equal=True)
    for name, length in lengths.items():
        parts = union(rows.select("lane", "start_ns", end_ns=pl.col("start_ns") + length), by="lane")
        sums = parts.group_by("lane").agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias(name))
        lanes = lanes.join(sums, on="lane", how="left", maintain_order="left")
    return lanes.drop("lane").with_columns(pl.col(list(lengths)).fill_null(0))


def covered(frame: pl.DataFrame, parts: pl.DataFrame, by: str = "device") -> pl.Series:
    """Nanoseconds of each row's ``start_ns..end_ns`` that the disjoint ``parts`` (from :func:`union`) cover."""
    if frame.is_empty() or parts.is_empty():
        return pl.repeat(0, frame.height, dtype=pl.Int64, eager=True)
    lane, start, end = (_numbers(frame[name]) for name in (by, "start_ns", "end_ns"))
    parts_lane, begin, stop, before = (_numbers(parts[name]) for name in (by, "start_ns", "end_ns", "before_ns"))
    line, *points = _line([parts_lane, lane, lane], [begin, start, end])

    def until(point: _Numbers, time: _Numbers) -> _Numbers:
        found = np.searchsorted(line, point, side="right") - 1
        inside = before[found] + np.minimum(time, stop[found]) - begin[found]
        return np.where((found >= 0) & (parts_lane[found] == lane), inside, 0)

    known = (frame["start_ns"].is_not_null() & frame["end_ns"].is_not_null()).to_numpy()
    return pl.Series(np.where(known, until(points[1], end) - until(points[0], start), 0))


def total(lanes: pl.Series, parts: pl.DataFrame, hidden_by: pl.DataFrame | None = None) -> pl.Series:
    """Length of the disjoint ``parts`` of each lane (column ``lane``), less what ``hidden_by`` covers."""
    length = _numbers(parts["end_ns"]) - _numbers(parts["start_ns"])
    if hidden_by is not None:
        length = length - _numbers(covered(parts, hidden_by, by="lane"))
    sums = np.concatenate([[0], np.cumsum(length)])
    asked, there = _numbers(lanes), _numbers(parts["lane"])
    return pl.Series(sums[np.searchsorted(there, asked, side="right")] - sums[np.searchsorted(there, asked)])


def _nowhere(lanes: pl.Series) -> int:
    """The number of rows without a lane: below all others."""
    return cast(int, lanes.min() or 0) - 1


def _numbers(column: pl.Series) -> _Numbers:
    column = column.cast(pl.Int64)
    return (column.fill_null(_nowhere(column)) if column.null_count() else column).to_numpy()


def _line(lanes: list[_Numbers], times: list[_Numbers]) -> list[_Numbers]:
    """Where each time of its lane lies on a line that holds all lanes, one behind the other."""
    lane_0, lane_1 = _ends(lanes)
    time_0, time_1 = _ends(times)
    if max(lane_1 - lane_0 + 1, 1) * (time_1 - time_0 + 1) >= _LONGEST:
        times, lanes = _ordered(times), _ordered(lanes)
        lane_0, lane_1, time_0, time_1 = 0, 0, *_ends(times)
    return [(lane - lane_0) * (time_1 - time_0 + 1) + (time - time_0) for lane, time in zip(lanes, times, strict=True)]


def _ends(columns: list[_Numbers]) -> tuple[int, int]:
    filled = [c for c in columns if len(c)]
    return min((int(c.min()) for c in filled), default=0), max((int(c.max()) for c in filled), default=0)


def _ordered(columns: list[_Numbers]) -> list[_Numbers]:
    """The values by their places in the order of all of them."""
    _, places = np.unique(np.concatenate(columns), return_inverse=True)
    cuts: list[Any] = np.cumsum([len(c) for c in columns])[:-1].tolist()
    return [part.astype(np.int64) for part in np.split(places, cuts)]
