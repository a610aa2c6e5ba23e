"""Parquet directories of Nsight Systems (``nsys export --type parquetdir``): one file per table of the SQLite export.

The columns that are read go into a database in memory, so that both exports are read by the same code. Files of
environment variables and captured output are not opened. The directory's list of texts stands for all of it.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import polars as pl

from nccl_insight.inputs.find import InputFile
from nccl_insight.inputs.limits import Limits
from nccl_insight.readers.nsys.database import Database
from nccl_insight.readers.nsys.quiet import without_panics

_ACTIVITY: Final = ("start", "end", "deviceId", "streamId", "globalPid")
_READ: Final[dict[str, tuple[str, ...]]] = {
    "StringIds": ("id", "value"),
    "CUPTI_ACTIVITY_KIND_KERNEL": (*_ACTIVITY, "correlationId", "demangledName", "shortName", "mangledName"),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (*_ACTIVITY, "bytes", "copyKind", "srcKind", "dstKind"),
    "CUPTI_ACTIVITY_KIND_MEMSET": _ACTIVITY,
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "globalTid", "correlationId"),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": ("start",),
    "NVTX_EVENTS": ("start", "end", "eventType", "text", "textId", "globalTid", "domainId", "binaryData"),
    "NVTX_PAYLOAD_SCHEMA_ENTRIES": ("schemaId", "name", "offset"),
    "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs",),
    "TARGET_INFO_GPU": ("name",),
}
_TEXTS: Final = ("value", "text", "name")
_BLOBS: Final = ("binaryData",)
_ROWS: Final = 100_000
_FREE_ROWS: Final = 300_000
_TEXT_BYTES: Final = 16_384


@contextlib.contextmanager
def open_folder(source: InputFile) -> Iterator[Database]:
    """The tables beside the list of texts, as a database in memory. Raises sqlite3.DatabaseError: a file is damaged."""
    columns: dict[str, tuple[str, ...]] = {}
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for table, wanted in _READ.items():
            path = source.path.with_name(f"{table}.parquet")
            if table == "StringIds":
                path = source.path
            if path.is_file():
                columns[table] = _copy(connection, table, path, wanted, source.limits)
        yield Database(connection, columns)


def _copy(
    connection: sqlite3.Connection, table: str, path: Path, wanted: tuple[str, ...], limits: Limits
) -> tuple[str, ...]:
    """The wanted columns that the file has, copied.

    A row of an export takes bytes of its own (times differ); a file that says otherwise is built to fill the memory.
    """
    try:
        size = path.stat().st_size
        most_rows, most_bytes = _FREE_ROWS + size, limits.expanded_bytes(size)
        with without_panics():
            lazy = pl.scan_parquet(path, glob=False)
            kept = tuple(c for c in lazy.collect_schema().names() if c in wanted)
            types = [
                pl.col(c).cast(pl.Binary, strict=False).bin.slice(0, _TEXT_BYTES)
                if c in _BLOBS
                else pl.col(c).cast(pl.String, strict=False).str.slice(0, _TEXT_BYTES)
                if c in _TEXTS
                else pl.col(c).cast(pl.Int64, strict=False)
                for c in kept
            ]
            quoted = ", ".join(f'"{c}"' for c in kept)
            connection.execute(f"create table {table} ({quoted or 'nothing'})")
            places = ", ".join("?" * len(kept))
            at = held = 0
            while kept:
                rows = lazy.slice(at, _ROWS).select(types).collect()
                held += sum(int(rows[c].str.len_bytes().sum()) for c in kept if c in _TEXTS)
                if at + rows.height > most_rows or held > most_bytes:
                    raise ValueError(
                        f"it holds more rows or longer texts than {size:,} bytes of an export do "
                        "(limits expansion-ratio and expansion-free-mib); it was not read"
                    )
                connection.executemany(f"insert into {table} values ({places})", rows.iter_rows())
                at += rows.height
                if rows.height < _ROWS:
                    break
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise sqlite3.DatabaseError(f"{path.name}: {reason}") from error
    return kept
