"""``query`` reads the run's tables and nothing else: no function that opens files or connections."""

from __future__ import annotations

import re
from typing import Final

from nccl_insight.errors import UsageError

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
