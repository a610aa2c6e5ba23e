"""Opening a SQLite export of a profiler safely, and reading its tables as frames.

Tables and columns are looked up first, because exports are lazy: what was not recorded has no table. Nothing is read
from tables that hold environment variables, command lines or captured output.
"""

import contextlib
import sqlite3
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import orjson
import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.inputs import temporary
from nccl_insight.inputs.blocks import DamagedStream, read_blocks
from nccl_insight.inputs.find import InputFile
from nccl_insight.inputs.limits import Limits
from nccl_insight.readers import side
from nccl_insight.tables.notes import CUT
from nccl_insight.tables.run import Partial

_BLOCK: Final = 8 << 20
# Rows that are looked at together; more than some thousand leave the processor's cache.
_BATCH: Final = 4_000
_BEFORE_ALL_ROWS: Final = -(1 << 63)
_MAX_RATIO: Final = 200
_STEPS_AT_ONCE: Final = 1_000_000
_STEPS_FREE: Final = 500_000_000
_FREE_BYTES: Final = 1 << 30


@dataclass(frozen=True)
class Database:
    """An open export. ``columns`` maps the names of its tables to their columns."""

    connection: sqlite3.Connection
    columns: dict[str, tuple[str, ...]]

    def has(self, table: str, *columns: str) -> bool:
        """Whether the table is there and has all these columns."""
        return table in self.columns and set(columns) <= set(self.columns[table])

    def frame(self, sql: str, schema: Mapping[str, pl.DataType | type[pl.DataType]]) -> pl.DataFrame:
        """Rows of a query. Values of the wrong kind become null. Raises sqlite3.DatabaseError."""
        cursor = self.connection.execute(sql)
        columns: list[list[pl.Series]] = [[] for _ in schema]
        while rows := cursor.fetchmany(_BATCH):
            for kept, (name, dtype), values in zip(columns, schema.items(), zip(*rows, strict=True), strict=True):
                kept.append(_series(name, values, dtype))
        return _joined(columns, schema)

    def numbers(self, table: str, columns: Mapping[str, tuple[str, pl.DataType | type[pl.DataType]]]) -> pl.DataFrame:
        """Integers of all rows of a table, in order: ``columns`` gives name: (SQL, type).

        The values come as lists, made by SQLite, which takes a third of the time of rows. Values of another kind
        become null. Raises sqlite3.DatabaseError.
        """
        schema = {name: dtype for name, (_, dtype) in columns.items()}
        parts: list[list[pl.Series]] = [[] for _ in schema]
        listed = ", ".join(f"json_group_array(c{i})" for i in range(len(columns)))
        values = ", ".join(f"{sql} as c{i}" for i, (sql, _) in enumerate(columns.values()))
        sql = (
            f"select max(r), {listed} from "
            f"(select rowid as r, {values} from {table} where rowid > ? order by rowid limit {_BATCH})"
        )
        last = _BEFORE_ALL_ROWS
        own = any(c.lower() == "rowid" for c in self.columns[table])  # a column of that name hides the row's number
        try:
            while not own:
                last, *texts = self.connection.execute(sql, (last,)).fetchone()
                if last is None:
                    return _joined(parts, schema)
                for kept, (name, dtype), text in zip(parts, schema.items(), texts, strict=True):
                    kept.append(_series(name, orjson.loads(text), dtype))
        except (sqlite3.OperationalError, orjson.JSONDecodeError):
            pass  # SQLite without JSON, a table without row numbers, or values that JSON has no word for
        plain = ", ".join(sql for sql, _ in columns.values())
        return self.frame(f"select {plain} from {table}", schema)


def _joined(columns: list[list[pl.Series]], schema: Mapping[str, pl.DataType | type[pl.DataType]]) -> pl.DataFrame:
    """The parts of each column as one frame; a column is let go of when it is joined."""
    made: list[pl.Series] = []
    for parts in columns:
        if not parts:
            return pl.DataFrame(schema=dict(schema))
        made.append(pl.concat(parts, rechunk=True))
        parts.clear()
    return pl.DataFrame(made)


def _series(name: str, values: Sequence[object], dtype: pl.DataType | type[pl.DataType]) -> pl.Series:
    """A column; SQLite types are per value, so values of another kind can stand in any column and become null."""
    if dtype == pl.Binary:
        return pl.Series(name, [v if type(v) is bytes else _bytes(v) for v in values], dtype=pl.Binary)
    try:
        return pl.Series(name, values, dtype=dtype)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        wanted = str if dtype == pl.String else int
        kept = [v if type(v) is wanted else None for v in values]
        rescued = pl.DataFrame({name: kept}, schema={name: pl.String if wanted is str else pl.Int64})
        return rescued.select(pl.col(name).cast(dtype, strict=False)).to_series()


def _bytes(value: object) -> bytes | None:
    """A payload blob; some exporters write it as hexadecimal text."""
    if isinstance(value, str):
        try:
            return bytes.fromhex(value.removeprefix("0x"))
        except ValueError:
            return None
    return value if isinstance(value, bytes) else None


@contextlib.contextmanager
def open_database(source: InputFile) -> Iterator[Database]:
    """The export, read-only and immutable; a compressed one is inflated to a temporary file first.

    Raises:
        sqlite3.DatabaseError: it is damaged or no database.
        DamagedStream: the compressed stream is damaged, or suspiciously large when inflated.
    """
    with contextlib.ExitStack() as stack:
        path = stack.enter_context(_inflated(source)) if source.compression else source.path
        uri = f"file:{urllib.parse.quote(str(path.absolute()))}?mode=ro&immutable=1"
        connection = stack.enter_context(contextlib.closing(sqlite3.connect(uri, uri=True)))
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        connection.execute("pragma trusted_schema=off")
        _bound(connection, path.stat().st_size, source.limits)
        names = [r[0] for r in connection.execute("select name from sqlite_master where type = 'table'")]
        asked = "select name from pragma_table_info(?)"
        columns = {name: tuple(str(row[0]) for row in connection.execute(asked, (name,))) for name in names}
        yield Database(connection, columns)


def read_database(
    source: InputFile,
    tables_of: Callable[[Database, list[tuple[str, str]]], Mapping[str, pl.DataFrame]],
    opened: Callable[[InputFile], contextlib.AbstractContextManager[Database]] = open_database,
) -> Partial:
    """What ``tables_of`` makes of a database, and the table ``notes``: its own (kind, detail) pairs, and damage."""
    notes: list[tuple[str, str]] = []
    tables: dict[str, pl.DataFrame] = {}
    try:
        with opened(source) as database:
            tables.update(tables_of(database, notes))
    except DamagedStream as error:
        notes.append((CUT, str(error)))
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter for names in a damaged database
        reason = "its names are not text" if isinstance(error, UnicodeDecodeError) else str(error)
        notes.append((CUT, f"the database is damaged or cut ({reason})"))
    return side.noted(source, tables, notes)


def _bound(connection: sqlite3.Connection, size_bytes: int, limits: Limits) -> None:
    """Ends queries that take more steps than the size of the database explains."""
    left = max(_STEPS_FREE, limits.sqlite_steps * size_bytes) // _STEPS_AT_ONCE

    def step() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    connection.set_progress_handler(step, _STEPS_AT_ONCE)


@contextlib.contextmanager
def _inflated(source: InputFile) -> Iterator[Path]:
    path = temporary.place("inflated.sqlite")
    limit = _FREE_BYTES + _MAX_RATIO * source.size_bytes
    try:
        with path.open("wb") as out:
            written = 0
            try:
                for block in read_blocks(source, _BLOCK):
                    out.write(block)
                    written += len(block)
                    if written > limit:
                        raise DamagedStream(f"it inflates to more than {limit >> 20:,} MiB and was not read")
            except DamagedStream as error:
                if not written or written > limit:
                    raise
                raise DamagedStream(f"{error}; a database cannot be read in part") from error
        yield path
    finally:
        temporary.discard(path)
