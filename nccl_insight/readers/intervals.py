"""Arithmetic on sets of time intervals, vectorised: unions per device and how much of other intervals they cover."""

from __future__ import annotations

import polars as pl


def union(frame: pl.DataFrame, by: str = "device") -> pl.DataFrame:
    """Disjoint intervals that cover the same time, per ``by``.

    Reads ``by, start_ns, end_ns``; gives ``by, start_ns, end_ns, before_ns`` sorted by start, ``before_ns`` being
    the covered time of that ``by`` before the interval.
    """
    groups = (
        frame.lazy()
        .select(by, "start_ns", "end_ns")
        .filter(pl.col("end_ns") > pl.col("start_ns"))
        .sort(by, "start_ns")
        .with_columns(reach=pl.col("end_ns").cum_max().shift(1).over(by))
        .with_columns(part=(pl.col("start_ns") > pl.col("reach")).fill_null(True).cum_sum())
        .group_by(by, "part")
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .sort(by, "start_ns")
        .with_columns(length=pl.col("end_ns") - pl.col("start_ns"))
        .with_columns(before_ns=pl.col("length").cum_sum().over(by) - pl.col("length"))
    )
    return groups.select(by, "start_ns", "end_ns", "before_ns").collect()


def _covered_until(points: pl.DataFrame, parts: pl.DataFrame, by: str) -> pl.Series:
    """Covered time before each point; ``points`` has ``by, at`` in any order."""
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


def covered(frame: pl.DataFrame, parts: pl.DataFrame, by: str = "device") -> pl.Series:
    """Nanoseconds of each row's ``start_ns..end_ns`` that the disjoint ``parts`` (from :func:`union`) cover."""
    if frame.is_empty() or parts.is_empty():
        return pl.repeat(0, frame.height, dtype=pl.Int64, eager=True)
    end = _covered_until(frame.select(by, at=pl.col("end_ns")), parts, by)
    start = _covered_until(frame.select(by, at=pl.col("start_ns")), parts, by)
    return pl.DataFrame({"end": end, "start": start}).select(pl.col("end") - pl.col("start")).to_series()
