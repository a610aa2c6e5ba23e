"""Lines looked up by their words, wherever ingest put them."""

from __future__ import annotations

import polars as pl

from nccl_insight.tables.run import Run

_COLUMNS = ("text", "message", "detail", "example", "template", "reason")
_TABLES = ("errors", "plugins", "unknown", "notes", "gdr", "p2p_check", "host", "net_devices")


def mentions(run: Run, pattern: str, tables: tuple[str, ...] = _TABLES) -> pl.DataFrame:
    """Rows whose text matches a regular expression: ``table, host, pid, rank, text, input_id, line``.

    In reading order. Text is matched in the free-text columns of the named tables only.
    """
    found = [f for f in (_in_table(run, t, pattern) for t in tables) if f is not None and f.height]
    return _merged(found)


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


def said(run: Run, *messages: str) -> pl.DataFrame:
    """Rows of any table that come from the named messages of the grammar, in the form of :func:`mentions`."""
    found: list[pl.DataFrame] = []
    for table, frame in run.tables.items():
        if "message" not in frame.columns or "line" not in frame.columns or not frame.height:
            continue
        if frame.schema["message"] != pl.String:
            continue
        rows = (
            frame.lazy().filter(pl.col("message").is_in(messages)).with_columns(pl.lit(table).alias("table"))
        )
        missing = [
            pl.lit(None, dtype=t).alias(c)
            for c, t in _SCHEMA.items()
            if c not in frame.columns and c != "table"
        ]
        part = rows.with_columns(missing).select([pl.col(c).cast(t) for c, t in _SCHEMA.items()]).collect()
        if part.height:
            found.append(part)
    return _merged(found)


def _merged(found: list[pl.DataFrame]) -> pl.DataFrame:
    if not found:
        return pl.DataFrame(schema=_SCHEMA)
    return (
        pl.concat(found)
        .unique(["input_id", "line"], keep="first", maintain_order=True)
        .sort("input_id", "line", maintain_order=True)
    )


def library_missing(run: Run) -> pl.DataFrame:
    """Lines that say that libibverbs cannot be opened, in the form of :func:`mentions`."""
    rows = mentions(run, r"(Failed to open|not open) .*libibverbs")
    host = run.table("host")
    columns = [c for c in ("library_file", "library_path") if c in host.columns]
    if not columns:
        return rows
    named = host.filter(
        pl.any_horizontal(
            pl.col(c).cast(pl.String).str.contains("libibverbs").fill_null(False) for c in columns
        )
    )
    missing = [
        pl.lit(None, dtype=t).alias(c) for c, t in _SCHEMA.items() if c not in named.columns and c != "table"
    ]
    part = named.with_columns(pl.lit("host").alias("table"), *missing).select(
        [pl.col(c).cast(t) for c, t in _SCHEMA.items()]
    )
    return _merged([rows, part])


def no_device(run: Run) -> pl.DataFrame:
    """Lines that say that there is no RDMA device, in the form of :func:`mentions`."""
    return _merged([said(run, "net_ib_none"), mentions(run, r"NET/IB ?: No device found")])
