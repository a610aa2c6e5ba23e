"""Frames as files and as text."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from nccl_insight.errors import UsageError


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Lists as JSON text, for formats that cannot hold them."""
    lists = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.List)]
    return frame.with_columns(
        pl.format("[{}]", pl.col(name).cast(pl.List(pl.String)).list.join(",")).alias(name) for name in lists
    )


def write_frame(frame: pl.DataFrame, path: Path, kind: str) -> None:
    """Writes one table as parquet, csv or ndjson."""
    if kind == "parquet":
        frame.write_parquet(path)
    elif kind == "csv":
        _flat(frame).write_csv(path)
    else:
        frame.write_ndjson(path)


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
