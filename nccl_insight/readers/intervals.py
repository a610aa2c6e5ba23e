"""Arithmetic on sets of time intervals, vectorised: unions per device and how much of other intervals they cover.

The lanes (devices, steps of devices) are laid one behind the other on one line of time, so that one sorted column of
integers is all that has to be looked at. Lanes and times too large for that go another, slower way.
"""

from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass

_LONGEST: Final = 1 << 62


@dataclass(frozen=True)
class _Line:
    """Where a time of a lane lies on the line: ``(lane - lane_0) * span_ns + time - time_0``."""

    lane_0: int
    time_0: int
    span_ns: int

    def at(self, by: str, time: str) -> pl.Expr:
        return (pl.col(by).cast(pl.Int64) - self.lane_0) * self.span_ns + (pl.col(time) - self.time_0)


def union(frame: pl.DataFrame, by: str = "device") -> pl.DataFrame:
    """Disjoint intervals that cover the same time, per ``by``.

    Reads ``by, start_ns, end_ns``; gives ``by, start_ns, end_ns, before_ns`` sorted by start, ``before_ns`` being
    the covered time of that ``by`` before the interval. Fastest on rows that are sorted by ``by`` and start.
    """
    rows = frame.select(by, "start_ns", "end_ns").filter(pl.col("end_ns") > pl.col("start_ns"))
    line = _line(by, rows)
    if line is None:
        return _union_by_groups(rows, by)
    placed = rows.select(at=line.at(by, "start_ns"), end=line.at(by, "end_ns"))
    if not placed["at"].is_sorted():
        placed = placed.sort("at")
    reach = placed["end"].cum_max()
    begins = (placed["at"] > reach.shift(1)).fill_null(True)
    start = placed["at"].filter(begins)
    parts = pl.DataFrame({"at": start, "end": reach.filter(begins.shift(-1, fill_value=True))})
    lane = pl.col("at") // line.span_ns
    base = line.time_0 - lane * line.span_ns
    length = pl.col("end") - pl.col("at")
    before = length.cum_sum() - length
    first = pl.when(lane.ne_missing(lane.shift(1))).then(before).forward_fill()
    return parts.select(
        (lane + line.lane_0).cast(frame.schema[by]).alias(by),
        start_ns=pl.col("at") + base,
        end_ns=pl.col("end") + base,
        before_ns=before - first,
    )


def covered(frame: pl.DataFrame, parts: pl.DataFrame, by: str = "device") -> pl.Series:
    """Nanoseconds of each row's ``start_ns..end_ns`` that the disjoint ``parts`` (from :func:`union`) cover."""
    if frame.is_empty() or parts.is_empty():
        return pl.repeat(0, frame.height, dtype=pl.Int64, eager=True)
    line = _line(by, frame, parts)
    if line is None:
        end = _covered_until(frame.select(by, at=pl.col("end_ns")), parts, by)
        start = _covered_until(frame.select(by, at=pl.col("start_ns")), parts, by)
        return pl.DataFrame({"end": end, "start": start}).select(pl.col("end") - pl.col("start")).to_series()
    placed = parts.select(at=line.at(by, "start_ns"), length=pl.col("end_ns") - pl.col("start_ns"))
    # A first interval of no length, so that each point has one at or before it.
    nothing = pl.DataFrame({"at": [-_LONGEST], "length": [0]})
    placed = pl.concat([nothing, placed]).with_columns(before=pl.col("length").cum_sum() - pl.col("length"))
    points = frame.select(start=line.at(by, "start_ns"), end=line.at(by, "end_ns"))
    until = pl.DataFrame({name: _until(points[name], placed) for name in ("end", "start")})
    return until.select(pl.col("end") - pl.col("start")).to_series()


def _line(by: str, *frames: pl.DataFrame) -> _Line | None:
    """The line for all lanes and times, ``None`` where it would be too long or a value is missing."""
    lanes: list[int] = []
    times: list[int] = []
    for frame in frames:
        columns = [frame[c] for c in (by, "start_ns", "end_ns")]
        if not all(c.dtype.is_integer() for c in columns) or any(c.null_count() for c in columns):
            return None
        if frame.is_empty():
            continue
        for column, seen in zip(columns, (lanes, times, times), strict=True):
            low, high = column.min(), column.max()
            if not isinstance(low, int) or not isinstance(high, int):
                return None
            seen += (low, high)
    if not lanes:
        return _Line(0, 0, 1)
    span = max(times) - min(times) + 1
    fits = (max(lanes) - min(lanes) + 1) * span < _LONGEST and max(map(abs, (*lanes, *times))) < _LONGEST
    return _Line(min(lanes), min(times), span) if fits else None


def _until(points: pl.Series, placed: pl.DataFrame) -> pl.Series:
    """Covered time of the line before each point."""
    found = placed.select(pl.all().gather(pl.col("at").search_sorted(points, side="right") - 1))
    inside = pl.min_horizontal(pl.col("point") - pl.col("at"), "length")
    return found.with_columns(points.alias("point")).select(pl.col("before") + inside).to_series()


def _union_by_groups(rows: pl.DataFrame, by: str) -> pl.DataFrame:
    """:func:`union` for any lanes and times."""
    return (
        rows.lazy()
        .sort(by, "start_ns")
        .with_columns(reach=pl.col("end_ns").cum_max().shift(1).over(by))
        .with_columns(part=(pl.col("start_ns") > pl.col("reach")).fill_null(True).cum_sum())
        .group_by(by, "part")
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .sort(by, "start_ns")
        .with_columns(length=pl.col("end_ns") - pl.col("start_ns"))
        .with_columns(before_ns=pl.col("length").cum_sum().over(by) - pl.col("length"))
        .select(by, "start_ns", "end_ns", "before_ns")
        .collect()
    )


def _covered_until(points: pl.DataFrame, parts: pl.DataFrame, by: str) -> pl.Series:
    """Covered time of the lane before each point, for any lanes and times; ``points`` has ``by, at`` in any order."""
    joined = (
        points.with_row_index("order")
        .sort("at")
        .join_asof(
            parts.sort("start_ns"),
            left_on="at",
            right_on="start_ns",
            by=by,
            strategy="backward",
            check_sortedness=False,
        )
        .sort("order")
    )
    inside = pl.min_horizontal("at", "end_ns") - pl.col("start_ns")
    return joined.select((pl.col("before_ns") + inside).fill_null(0)).to_series()
