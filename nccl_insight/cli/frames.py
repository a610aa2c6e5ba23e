"""Frames as files and as text."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

import polars as pl
from polars.io.plugins import register_io_source

from nccl_insight.base.errors import UsageError
from nccl_insight.report.prose import aligned
from nccl_insight.report.sanitize import one_line

# More than what a file system rounds a file up to.
_PROBE_BYTES: Final = 1 << 17
# Columns of a result up to which all are shown where no terminal bounds the width.
_WIDE_COLUMNS: Final = 40


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Lists as JSON text, for formats that cannot hold them."""
    # Texts that a spreadsheet would run as a formula get an apostrophe in front; plain negative numbers do not.
    texts = [name for name, dtype in frame.schema.items() if dtype == pl.String]
    frame = frame.with_columns(
        pl.col(name).str.replace(r"^([=+@\t\r\n＝＋－＠]|-[0-9.]*[^0-9.])", "'$1") for name in texts
    )
    lists = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.List)]
    return frame.with_columns(
        pl.format("[{}]", pl.col(name).cast(pl.List(pl.String)).list.join(",")).alias(name) for name in lists
    )


def write_frames(frames: Iterator[pl.DataFrame], path: Path, kind: str, empty: bool = True) -> bool:
    """Writes one table, given in pieces of the same columns, as parquet, csv or ndjson.

    ``empty``: also write a table without rows. Says whether anything was written.
    """
    first = next(frames)
    if not (first.height or empty):
        return False
    if kind == "parquet":
        try:
            _write_parquet(first, frames, path)
        except pl.exceptions.PolarsError:
            _probe(path)
            raise
        return True
    with path.open("wb") as out:
        for index, frame in enumerate(chain((first,), frames)):
            if kind == "csv":
                _flat(frame).write_csv(out, include_header=index == 0)
            else:
                frame.write_ndjson(out)
    return True


def _write_parquet(first: pl.DataFrame, frames: Iterator[pl.DataFrame], path: Path) -> None:
    second = next(frames, None)
    if second is None:
        first.write_parquet(path)
        return

    def source(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, batch: int | None
    ) -> Iterator[pl.DataFrame]:
        for frame in chain((first, second), frames):
            yield frame if columns is None else frame.select(columns)

    register_io_source(source, schema=first.schema).sink_parquet(path)


def _probe(path: Path) -> None:
    """Raises what the system says when more is written to a file: polars calls a full disk a damaged Parquet file."""
    with path.open("ab") as out:
        out.write(bytes(_PROBE_BYTES))
        out.flush()
        os.fsync(out.fileno())


def show_frame(frame: pl.DataFrame, kind: str, width: int | None = None) -> str:
    """A result as an aligned table, json (one array), csv or ndjson.

    A table that is wider than ``width`` loses its empty columns; if that is not enough, each row becomes a block of
    ``column: value`` lines. With None, which keeps piped output apart from any terminal, only a table of more than
    ``_WIDE_COLUMNS`` columns loses its empty ones. Raises UsageError: unknown kind.
    """
    if kind == "csv":
        return _flat(frame).write_csv()
    if kind == "ndjson":
        return frame.write_ndjson()
    if kind == "json":
        return frame.write_json() + "\n"
    if kind != "table":
        raise UsageError(f"--format {kind!r}: use table, csv, json or ndjson")
    if width is not None or len(frame.columns) <= _WIDE_COLUMNS:
        full = _grid(frame)
        if width is None or _fits(full, width):
            return full
    kept = [name for name in frame.columns if frame[name].null_count() < frame.height]
    dropped = len(frame.columns) - len(kept)
    slim = frame.select(kept) if kept else frame
    said = f"({dropped} empty columns left out)\n" if dropped else ""
    text = _grid(slim)
    return (text if width is None or _fits(text, width) else _blocks(slim, width)) + said


def _fits(text: str, width: int) -> bool:
    return all(len(line) <= width for line in text.splitlines())


def _texts(frame: pl.DataFrame) -> list[list[str]]:
    """Values as text on one line, harmless to a terminal."""
    return [["" if v is None else one_line(str(v)) for v in row] for row in frame.iter_rows()]


def _blocks(frame: pl.DataFrame, width: int) -> str:
    """One block per row: ``column  value``, values wrapped behind their column."""
    names = frame.columns
    room = max((len(name) for name in names), default=0)
    lines: list[str] = []
    for number, row in enumerate(_texts(frame), 1):
        lines.append(f"-- row {number} ".ljust(min(width, 40), "-"))
        for name, value in zip(names, row, strict=True):
            if value:
                lines += textwrap.wrap(
                    value,
                    max(width, room + 20),
                    initial_indent=f"{name:<{room}}  ",
                    subsequent_indent=" " * (room + 2),
                    break_long_words=False,
                    break_on_hyphens=False,
                )
    return "".join(f"{line}\n" for line in lines)


def _grid(frame: pl.DataFrame) -> str:
    rows = [frame.columns, *_texts(frame)]
    names, *lines = aligned(rows)
    rules = "  ".join("-" * max(map(len, column)) for column in zip(*rows, strict=True))
    return "".join(f"{line}\n" for line in (names, rules, *lines))
