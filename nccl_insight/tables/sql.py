"""SQL over the tables of a run, and over nothing else: no function that opens files or connections."""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from nccl_insight.errors import UsageError
from nccl_insight.tables.run import Run

# Comments and texts in quotes: what stands in them is no SQL. A doubled quote goes on.
_SKIPPED: Final = re.compile(r"--[^\n]*|/\*.*?(?:\*/|\Z)|'[^']*(?:'|\Z)", re.S)
_READER: Final = re.compile(r"\b(?:read|scan|load|copy|attach|install)\w*[\"`\]]?\s*\(", re.I)
_QUOTED_PLACE: Final = re.compile(r"\b(?:from|join)\s*'", re.I)
_ENDLESS: Final = re.compile(r"\bwith\s+recursive\b", re.I)
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


def select(run: Run, sql: str) -> pl.DataFrame:
    """The result of a SELECT over the tables of a run, by their names.

    Raises:
        UsageError: the SQL is wrong, or could read anything but the tables.
    """
    check_sql(sql)
    context = pl.SQLContext(frames={name: frame.lazy() for name, frame in run.tables.items()})
    try:
        return context.execute(sql, eager=True)
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise UsageError(f"query: {str(error).splitlines()[0]}") from error
