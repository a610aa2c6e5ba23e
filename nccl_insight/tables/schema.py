"""The table contract: names, columns and types of every table (public API).

``None`` values mean unknown. Units are in the column names. Everything comes from ``columns.txt``
(:mod:`nccl_insight.tables.declared` says its form): ``SCHEMA`` is all tables with all columns, ``CONTRACT`` those that
code which puts a table together may count on. A table of a run always has all its columns; those that nothing filled
are null. Only extensions may bring tables that are not listed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import repeat
from typing import Any, Final, TypeAlias, cast

import polars as pl

from nccl_insight.tables import declared

Columns: TypeAlias = Mapping[str, "pl.DataType | type[pl.DataType]"]


def _schema() -> Iterator[tuple[str, Columns, Columns]]:
    """Each table's name, columns, and those of the contract."""
    tables = {table.name: table.columns for table in declared.tables(declared.declaration())}
    shared = tables.pop(declared.SHARED)
    known = {
        name: declared.data_type(name, shared)
        for name in {c.type for columns in tables.values() for c in columns.values()}
    }
    for name, columns in tables.items():
        types = {column: known[said.type] for column, said in columns.items()}
        yield name, types, {c: t for c, t in types.items() if columns[c].block == declared.CONTRACT}


_DECLARED: Final = tuple(_schema())
SCHEMA: Final[Mapping[str, Columns]] = {name: columns for name, columns, _ in _DECLARED}
CONTRACT: Final[Mapping[str, Columns]] = {name: first for name, _, first in _DECLARED if first}
OPS: Final = tuple(cast(pl.Enum, SCHEMA["calls"]["op"]).categories)

# Levels that report no trouble. A line of any other level, also of one that a later release adds, is judged like WARN.
QUIET_LEVELS: Final = ("INFO", "TRACE", "CALL", "VERSION")


def is_loud(levels: pl.Expr) -> pl.Expr:
    """Whether records of a level are judged like warnings: WARN, ATTN, ERROR, ABORT, DIAG and any new name.

    A torn line may have written `INFO` over another level or over itself (`IINFO`): no name that holds it is new.
    """
    return ~(levels.is_in(QUIET_LEVELS) | levels.cast(pl.String).str.contains("INFO", literal=True))


def known_op(column: str) -> pl.Expr:
    """The operations that NCCL names in a column, ``Other`` for those that the tables have no name for."""
    return pl.when(pl.col(column).is_in(OPS)).then(pl.col(column)).otherwise(pl.lit("Other"))


# Tables of which a log may have millions of rows: they are looked at piece by piece (``Run.pieces``), not put together.
FLOODS: Final = frozenset({"calls", "tuning_choice"})
_PROVENANCE: Final[Columns] = {"input_id": pl.UInt16(), "line": pl.UInt64()}


def of_input(name: str) -> Columns:
    """The columns of a table as a reader fills them: without the number of the input."""
    return {column: dtype for column, dtype in SCHEMA[name].items() if column != "input_id"}


def _asked(query: Callable[..., pl.DataFrame]) -> Callable[..., pl.DataFrame]:
    return lambda self, *how, **named: query(self, *how, **named) if self.height else self


class _Nothing(pl.DataFrame):
    """A frame without rows: nothing can be left out, and a query would cost as much as on a thousand rows."""

    filter = _asked(pl.DataFrame.filter)
    drop_nulls = _asked(pl.DataFrame.drop_nulls)
    unique = _asked(pl.DataFrame.unique)
    sort = _asked(pl.DataFrame.sort)


def empty(name: str) -> pl.DataFrame:
    """A frame of a table without rows (``input_id`` and ``line`` only for tables of extensions)."""
    return _empty(name).clone()


def _nothing(columns: Columns) -> pl.DataFrame:
    return _Nothing([_rowless(dtype).alias(column) for column, dtype in columns.items()])


@cache
def _empty(name: str) -> pl.DataFrame:
    return _nothing(SCHEMA.get(name) or _PROVENANCE)


@cache
def _contract(name: str) -> pl.DataFrame:
    return _nothing(CONTRACT[name])


def complete(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with all columns of the table, in order and type; missing ones null, those of extensions kept.

    Values that an enum does not list become null rather than an error.
    """
    return _with(frame, SCHEMA[name], _empty(name)) if name in SCHEMA else frame


OWNER: Final = "_owner"
"""A number for rank, process and communicator of a row, for those who group millions; made where it is asked for."""


def owner() -> pl.Expr:
    """The column :data:`OWNER` of rows with ``comm_id, rank, host, pid``."""
    names = ("comm_id", "rank", "host", "pid")
    types = (pl.String, pl.Int32, pl.String, pl.Int64)
    return pl.struct(pl.col(n).cast(t) for n, t in zip(names, types, strict=True)).hash().alias(OWNER)


def shaped(frame: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """The frame with exactly these columns, in order and type; missing ones null. For rows of several tables in one."""
    return _with(frame, columns, _nothing(columns)).select(list(columns))


def of_rows(rows: Sequence[Mapping[str, Any] | Sequence[Any]], columns: Columns) -> pl.DataFrame:
    """Rows, by name or in the order of the columns, as a frame; what a column cannot hold (-1 as unsigned) is null."""
    plain = [[row.get(name) for name in columns] if isinstance(row, Mapping) else row for row in rows]
    cells = zip(*plain, strict=True) if plain else repeat(())
    pairs = zip(columns.items(), cells, strict=bool(plain))
    return pl.DataFrame([pl.Series(name, values, dtype, strict=False) for (name, dtype), values in pairs])


def conform(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with the contract's columns first, in order and type; missing ones null, further ones kept.

    For tables that are still being put together; :func:`complete` is for those of a run.
    """
    return _with(frame, CONTRACT[name], _contract(name)) if name in CONTRACT else frame


# From here on columns without values are made so that they take no memory.
_TALL: Final = 10_000


@cache
def _rowless(dtype: pl.DataType | type[pl.DataType]) -> pl.Series:
    return pl.Series([], dtype=dtype)


def _with(frame: pl.DataFrame, columns: Columns, without_rows: pl.DataFrame) -> pl.DataFrame:
    have = dict(zip(frame.columns, frame.dtypes, strict=True))
    wrong = [name for name in have if name in columns and have[name] != columns[name]]
    if frame.height > _TALL:
        missing = [pl.lit(None, dtype).alias(name) for name, dtype in columns.items() if name not in have]
        casts = [pl.col(name).cast(columns[name], strict=False) for name in wrong]
        return frame.with_columns(*missing, *casts).select(*columns, *(name for name in have if name not in columns))
    # No expressions: a table has up to 400 columns, and one for each would cost more than a small table.
    if wrong:
        frame = frame.with_columns([frame[name].cast(columns[name], strict=False) for name in wrong])
    return pl.concat([without_rows, frame], how="diagonal")
