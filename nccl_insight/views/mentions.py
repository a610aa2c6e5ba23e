"""Lines looked up by their words, wherever ingest put them."""

from __future__ import annotations

import polars as pl

from nccl_insight.run import Run

_COLUMNS = ("text", "message", "detail", "example", "template", "reason")
_TABLES = ("errors", "plugins", "unknown", "notes", "gdr", "p2p_check", "host", "net_devices")


def mentions(run: Run, pattern: str, tables: tuple[str, ...] = _TABLES) -> pl.DataFrame:
    """Rows whose text matches a regular expression: ``table, host, pid, rank, text, input_id, line``.

    In reading order. Text is matched in the free-text columns of the named tables only.
    """
    found = [f for f in (_in_table(run, t, pattern) for t in tables) if f is not None and f.height]
    if not found:
        return pl.DataFrame(schema=_SCHEMA)
    return (
        pl.concat(found)
        .unique(["input_id", "line"], keep="first", maintain_order=True)
        .sort("input_id", "line", maintain_order=True)
    )


_SCHEMA = {
    "table": pl.String, "host": pl.String, "pid": pl.Int64, "rank": pl.Int32, "text": pl.String,
    "input_id": pl.UInt16, "line": pl.UInt64,
}  # fmt: skip


def _in_table(run: Run, table: str, pattern: str) -> pl.DataFrame | None:
    if not run.has(table):
        return None
    frame = run.table(table)
    columns = [c for c in _COLUMNS if frame.schema.get(c) == pl.String]
    if not columns or "line" not in frame.columns:
        return None
    hit = pl.any_horizontal(pl.col(c).str.contains(pattern).fill_null(False) for c in columns)
    missing = [
        pl.lit(None, dtype=t).alias(c) for c, t in _SCHEMA.items() if c not in frame.columns and c != "table"
    ]
    return (
        frame.lazy()
        .filter(hit)
        .with_columns(pl.lit(table).alias("table"), pl.coalesce(columns).alias("text"))
        .with_columns(missing)
        .select([pl.col(c).cast(t) for c, t in _SCHEMA.items()])
        .collect()
    )
