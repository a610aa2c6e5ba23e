"""When lines were printed, in seconds since 1970, from whatever clock stands on them.

NCCL stamps warnings since 2.26; torch, glog, absl, Slurm, ISO stamps of collectors, dmesg -T and syslog have their own
forms. Stamps without a year get that of the dated ones. All are taken as local time of one zone; hosts differ by less
than :data:`SKEW_S`, or order is not judged. Where lines have a program's stamp and a collector's, which may be of
another zone, those that have the collector's alone are moved to the program's clock.
"""

import datetime
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from nccl_insight.readers.embedded.endings import COURSE
from nccl_insight.tables.run import Run, fact

SKEW_S: Final = 30.0
"""Clocks of two hosts may differ by this much."""
SAME_HOST_SKEW_S: Final = 5.0
# No zone of time is further off, and no job waits so long for a process that is gone.
DAY_S: Final = 26 * 3600.0
"""Lines of one host may be stamped or written out of order by this much."""

_CLOCK: Final = r"(?<hour>[0-9]{2}):(?<minute>[0-9]{2}):(?<second>[0-9]{2}(?:[.,][0-9]{1,6})?)"
_DATED: Final = rf"(?<year>[0-9]{{4}})[-/](?<month>[0-9]{{2}})[-/](?<day>[0-9]{{2}})[T _]{_CLOCK}"
_STAMP: Final = r"([0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[T _][0-9:]{8}(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)"
_GLOG: Final = rf"(?:^|[\[\s:])[IWEF](?<year>)(?<month>[0-9]{{1,2}})(?<day>[0-9]{{2}}) {_CLOCK}"
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SYSLOG_YEAR: Final = rf"\b(?<month>{'|'.join(_MONTHS)}) +(?<day>[0-9]{{1,2}}) {_CLOCK}(?: (?<year>[0-9]{{4}}))?"
_BEHIND: Final = {"input_id": pl.UInt16, "_form": pl.String, "_behind_s": pl.Float64}
ERROR_STAMPS: Final = ("event_time", "timestamp", "launcher")
"""Columns of ``errors`` that may hold a stamp, the surest first."""
_DATED_YEAR: Final = r"([0-9]{4})[-/][0-9]{2}[-/][0-9]{2}[T _]"


def with_time(run: Run, frame: pl.DataFrame, *stamps: str) -> pl.DataFrame:
    """The rows with ``time_s`` (float, seconds since 1970; null where no column of ``stamps`` has a clock)."""
    if frame.is_empty() or all(_without(frame, column) for column in stamps):
        return frame.with_columns(time_s=pl.lit(None, pl.Float64))
    time = _seconds(frame, _text(stamps), _year(run))
    behind = _behind(run)
    if behind.is_empty():
        return frame.with_columns(time_s=time)
    rows = frame.with_columns(time_s=time, _form=_form(_text(stamps)))
    rows = rows.join(behind, on=["input_id", "_form"], how="left", maintain_order="left")
    moved = pl.col("time_s") + pl.col("_behind_s").fill_null(0.0)
    return rows.with_columns(time_s=moved).drop("_form", "_behind_s")


@fact
def timed_errors(run: Run) -> pl.DataFrame:
    """The table ``errors`` with ``time_s``, as of :func:`with_time`."""
    return with_time(run, run.table("errors"), *ERROR_STAMPS)


@fact
def stamps(run: Run) -> Mapping[int, tuple[list[int], list[float]]]:
    """The lines of each input that have a clock, in order, and their times."""
    said = run.table("endings").filter(pl.col("kind").is_in(list(COURSE)))
    parts = (
        timed_errors(run),
        with_time(run, run.table("tracebacks"), "timestamp", "tag"),
        with_time(run, said, "text"),
    )
    rows = pl.concat([p.select("input_id", pl.col("line").cast(pl.Int64), "time_s") for p in parts]).drop_nulls()
    inputs = rows.sort("input_id", "line").partition_by("input_id", maintain_order=True, as_dict=True)
    return {int(str(i)): (own["line"].to_list(), own["time_s"].to_list()) for (i,), own in inputs.items()}


def since(run: Run, input_id: int, line: int) -> float | None:
    """The time of a line, or of the last one in front of it that has one: it was not written before that."""
    lines, times = stamps(run).get(input_id, ([], []))
    at = bisect_right(lines, line)
    return times[at - 1] if at else None


def _without(frame: pl.DataFrame, column: str) -> bool:
    """Whether a column has no values; asked first because the patterns of stamps take milliseconds to compile."""
    return frame[column].null_count() == frame.height


def _text(columns: Sequence[str]) -> pl.Expr:
    return pl.concat_str([pl.col(c).cast(pl.String).fill_null("") for c in columns], separator=" | ")


def _form(text: pl.Expr) -> pl.Expr:
    """How the first dated stamp of a text is written: ``0-0-0T0:0:0.0Z``."""
    return text.str.extract(_STAMP).str.replace_all("[0-9]+", "0")


@fact
def _behind(run: Run) -> pl.DataFrame:
    """By how much the clock of programs differs from their collector's, which is often of another time zone.

    Columns ``input_id, _form, _behind_s``: how stamps of the collector are written, and what to add to them. Inputs
    without lines that have both stamps, or where both agree or look alike, are left out.
    """
    errors = run.table("errors")
    if _without(errors, "timestamp") or _without(errors, "launcher"):
        return pl.DataFrame(schema=_BEHIND)
    own, outer = pl.col("timestamp").cast(pl.String), pl.col("launcher").cast(pl.String)
    both = errors.filter(own.str.contains(_DATED) & outer.str.contains(_DATED))
    found = (
        both.with_columns(_behind_s=_seconds(both, own, 2000) - _seconds(both, outer, 2000))
        .group_by("input_id", _form(outer).alias("_form"), maintain_order=True)
        .agg(pl.col("_behind_s").median(), _own=_form(own).unique())
    )
    told = (pl.col("_behind_s").abs() > SKEW_S) & ~pl.col("_form").is_in(pl.col("_own"))
    return found.filter(told).drop("_own")


def _seconds(frame: pl.DataFrame, text: pl.Expr, year: int) -> pl.Series:
    texts = frame.select(text.alias("time_s")).to_series()
    times: pl.Series = pl.Series("time_s", [None], pl.Float64).new_from_index(0, texts.len())
    for pattern in (_DATED, _GLOG, _SYSLOG_YEAR):
        # A form is looked for where none was found before.
        at = times.is_null().arg_true()
        if at.is_empty():
            break
        form = (texts if len(at) == texts.len() else texts[at]).str.extract_groups(pattern).struct.unnest()
        if form["day"].null_count() < form.height:
            times = times.scatter(at, _epoch(form, year, pattern == _SYSLOG_YEAR))
    return times


def _epoch(stamps: pl.DataFrame, default: int, named: bool) -> pl.Series:
    """Seconds of what a pattern captured: ``year, month, day, hour, minute, second`` (str; ``month`` is its name where
    ``named``). ``default``: the year of those without."""
    part = pl.col("month")
    part = part.replace({name: str(n) for n, name in enumerate(_MONTHS, 1)}) if named else part
    numbers = stamps.select(
        pl.col("year").cast(pl.Int32, strict=False).fill_null(default),
        part.cast(pl.Int32, strict=False),
        pl.col("day", "hour", "minute").cast(pl.Int32, strict=False),
        pl.col("second").str.replace(",", ".", literal=True).cast(pl.Float64, strict=False),
    )
    # Arithmetic of columns rather than of expressions: of a few rows each operation takes a tenth of the time.
    month, day, hour, minute, second = numbers.get_columns()[1:]
    good = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31) & (hour < 24) & (minute < 60)
    first = numbers.select(pl.date("year", pl.when(good).then("month"), 1).cast(pl.Int64)).to_series()
    seconds: pl.Series = (((first + day - 1) * 24 + hour) * 60 + minute) * 60 + second
    return seconds


@fact
def _year(run: Run) -> int:
    """Year of the first dated stamp of the run, else 2000."""
    said = run.table("endings").filter(pl.col("kind").is_in(list(COURSE))).select("text")
    stamped = run.table("errors", *ERROR_STAMPS), run.table("tracebacks", "timestamp", "tag"), said
    for frame in stamped:
        for texts in (t for t in frame.iter_columns() if t.null_count() < t.len()):
            # 2025-03-02T10:00:00, and the kernel's "Sun Mar  2 10:00:00 2025".
            for pattern, group in (_DATED_YEAR, 1), (_SYSLOG_YEAR, 6):
                found = texts.str.extract(pattern, group).drop_nulls()
                if found.len():
                    return int(found[0])
    return 2000


def clock_text(time_s: float) -> str:
    """``2025-06-01 10:00:00``; without a year where none was printed."""
    moment = datetime.datetime.fromtimestamp(time_s, datetime.timezone.utc)
    return moment.strftime("%Y-%m-%d %H:%M:%S" if moment.year != 2000 else "%m-%d %H:%M:%S")
