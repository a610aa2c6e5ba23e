"""SQL over the tables of a run, and over nothing else: no function that opens files or connections."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import polars as pl

from nccl_insight.errors import UsageError
from nccl_insight.language.load import default_grammar
from nccl_insight.tables import schema
from nccl_insight.tables.run import Run, near

# Comments and texts in quotes: what stands in them is no SQL. A doubled quote goes on.
_SKIPPED: Final = re.compile(r"--[^\n]*|/\*.*?(?:\*/|\Z)|'[^']*(?:'|\Z)", re.S)
_READER: Final = re.compile(r"\b(?:read|scan|load|copy|attach|install)\w*[\"`\]]?\s*\(", re.I)
_QUOTED_PLACE: Final = re.compile(r"\b(?:from|join)\s*'", re.I)
_ENDLESS: Final = re.compile(r"\bwith\s+recursive\b", re.I)
_UNKNOWN_TABLE: Final = re.compile(r"relation '([^']{1,80})' was not found")
_UNKNOWN_COLUMN: Final = re.compile(r"unable to find column \"([^\"]{1,80})\"")
_TEXT: Final = re.compile(r"'([a-z][a-z0-9_]{2,80})'")
_LONGEST: Final = 100_000


def check_sql(sql: str) -> None:
    """Refuses SQL that could read anything but the tables of the run.

    Raises:
        UsageError: it names a function that reads files, a file in the place of a table, or recursion.
    """
    if len(sql) > _LONGEST:
        raise UsageError(f"query: the SQL is longer than {_LONGEST:,} characters")
    bare = _SKIPPED.sub(lambda m: "''" if m[0].startswith("'") else " ", sql)
    if _READER.search(bare) or _QUOTED_PLACE.search(bare):
        raise UsageError(
            "query: only the tables of the run can be read; there are no functions that open files"
        )
    if _ENDLESS.search(bare):
        raise UsageError("query: WITH RECURSIVE is not supported")


def current(sql: str) -> tuple[str, Mapping[str, str]]:
    """The SQL with the present names of messages in place of older ones, and which were replaced (old: new)."""
    renamed = default_grammar().renamed
    found = {old: renamed[old] for old in _TEXT.findall(sql) if old in renamed}
    return _TEXT.sub(lambda m: f"'{found.get(m[1], m[1])}'", sql), found


def select(run: Run, sql: str) -> pl.DataFrame:
    """The result of a SELECT over the tables of a run, by their names. Older names of messages are understood.

    Raises:
        UsageError: the SQL is wrong, or could read anything but the tables.
    """
    check_sql(sql)
    sql, _ = current(sql)
    context = pl.SQLContext(frames={name: frame.lazy() for name, frame in run.tables.items()})
    try:
        return context.execute(sql, eager=True)
    except (pl.exceptions.PolarsError, ValueError) as error:
        said = str(error).splitlines()[0]
        unknown = _UNKNOWN_TABLE.search(said)
        if unknown:
            said = (
                f"no table is called {unknown[1]!r}{near(unknown[1], run.tables)} (query --tables lists them)"
            )
        elif column := _UNKNOWN_COLUMN.search(said):
            known = {name for table in run.tables if table in sql for name in run.table(table).columns}
            said = (
                f"no column is called {column[1]!r}{near(column[1], known)} (query --schema TABLE lists them)"
            )
        raise UsageError(f"query: {said}") from error


def overview(run: Run | None = None) -> pl.DataFrame:
    """Names of the tables with their number of columns; of a run with their rows, the empty ones left out.

    Columns: ``table, rows, columns`` (``rows`` only for a run).
    """
    if run is None:
        rows = [(name, len(columns)) for name, columns in sorted(schema.SCHEMA.items())]
        return pl.DataFrame(rows, schema={"table": pl.String, "columns": pl.Int64}, orient="row")
    return run.tables()


def columns(table: str) -> pl.DataFrame:
    """Columns of a table: ``column, type``; units stand in the names of the columns.

    Raises:
        UsageError: there is no table of that name; the message gives the nearest one.
    """
    if table not in schema.SCHEMA:
        raise UsageError(
            f"no table is called {table!r}{near(table, schema.SCHEMA)} (query --tables lists them)"
        )
    rows = [(name, _type(kind)) for name, kind in schema.SCHEMA[table].items()]
    return pl.DataFrame(rows, schema={"column": pl.String, "type": pl.String}, orient="row")


def _type(kind: pl.DataType | type[pl.DataType]) -> str:
    if isinstance(kind, pl.Enum):
        return "one of " + ", ".join(kind.categories)
    return str(kind)
