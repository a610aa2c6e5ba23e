"""Frames as files and as text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import polars as pl
from polars.io.plugins import register_io_source

from nccl_insight.errors import UsageError


def _inert(frame: pl.DataFrame) -> pl.DataFrame:
    """Texts that a spreadsheet would run as a formula get an apostrophe in front."""
    texts = [name for name, dtype in frame.schema.items() if dtype == pl.String]
    return frame.with_columns(pl.col(name).str.replace(r"^([=+@\t\r]|-[^0-9])", "'$1") for name in texts)


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Lists as JSON text, for formats that cannot hold them."""
    frame = _inert(frame)
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
        _write_parquet(first, frames, path)
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


def show_frame(frame: pl.DataFrame, kind: str) -> str:
    """A result as an aligned table, csv or ndjson.

    Raises:
        UsageError: unknown kind.
    """
    if kind == "csv":
        return _flat(frame).write_csv()
    if kind == "ndjson":
        return frame.write_ndjson()
    if kind != "table":
        raise UsageError(f"--format {kind!r}: use table, csv or ndjson")
    names = frame.columns
    rows = [["" if v is None else str(v) for v in row] for row in frame.iter_rows()]
    widths = [max([len(n), *(len(r[i]) for r in rows)]) for i, n in enumerate(names)]
    lines = [names, ["-" * w for w in widths], *rows]
    return "".join(
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() + "\n" for line in lines
    )
