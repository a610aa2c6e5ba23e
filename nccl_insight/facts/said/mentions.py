"""Lines looked up by what they say, wherever ingest put them."""

import polars as pl

from nccl_insight.facts.said.topics import telling
from nccl_insight.tables.declared import frame
from nccl_insight.tables.run import Run, fact
from nccl_insight.tables.schema import shaped

_COLUMNS = ("text", "message", "detail", "example", "template", "reason")
_TABLES = ("errors", "plugins", "unknown", "notes", "gdr", "p2p_check", "host", "net_devices")


def mentions(run: Run, topic: str, *wanted: str, tables: tuple[str, ...] = _TABLES) -> pl.DataFrame:
    """Rows that say something on a topic of the grammar: ``table, host, pid, rank, text, input_id, line``.

    In reading order. ``wanted``: only those that say one of these words. Looked up in the free-text columns of the
    named tables only.
    """
    found = [f for f in (_in_table(run, t, topic, wanted) for t in tables) if f is not None]
    if not found:
        return pl.DataFrame(schema=_SCHEMA)
    rows = pl.concat(found).unique(["input_id", "line"], keep="first", maintain_order=True)
    return rows.sort("input_id", "line", maintain_order=True)


_SCHEMA = frame("table str, host str, pid i64, rank i32, text str, input_id u16, line u64")


@fact
def _texts(run: Run, table: str) -> pl.DataFrame | None:
    """A table with all its free text as ``text`` and the first of it as ``_first``; only columns that have values."""
    frame = run.table(table)
    frame = frame.select(s for s in frame.iter_columns() if s.null_count() < len(s))
    types = frame.schema
    columns = [c for c in _COLUMNS if types.get(c) == pl.String]
    if not columns:
        return None
    whole = pl.concat_str(columns, separator="\n", ignore_nulls=True)
    return frame.with_columns(_first=pl.coalesce(columns), text=whole)


def _in_table(run: Run, table: str, topic: str, wanted: tuple[str, ...]) -> pl.DataFrame | None:
    if not run.has(table):
        return None
    rows = _texts(run, table)
    if rows is None:
        return None
    hits = telling(rows, topic, *wanted)
    if hits.is_empty():
        return None
    return shaped(hits.with_columns(table=pl.lit(table), text=pl.col("_first")), _SCHEMA)


def library_missing(run: Run) -> pl.DataFrame:
    """Lines that say that libibverbs cannot be opened, in the form of :func:`mentions`."""
    return mentions(run, "libibverbs-missing")


@fact
def no_device(run: Run) -> pl.DataFrame:
    """Lines that say that there is no RDMA device, in the form of :func:`mentions`."""
    return mentions(run, "no-rdma-device")
