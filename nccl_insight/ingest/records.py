"""The records of a chunk: their columns, what became of its lines, what a chunk gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from nccl_insight.grammar.syntax import Message
from nccl_insight.ingest import head

LOUD: Final = ("WARN", "ABORT", "DIAG")
HEAD: Final = {f"_{name}": dtype for name, dtype in head.COLUMNS.items()}
RECORD: Final = {
    "_line": pl.UInt64, "_sub": pl.UInt16, "_level": pl.String, "_hid": pl.UInt32, "_body": pl.String,
}  # fmt: skip


@dataclass(frozen=True)
class Fate:
    """Physical lines by what became of them."""

    lines: int = 0
    parsed: int = 0
    unknown: int = 0
    foreign: int = 0
    torn: int = 0

    def __add__(self, other: Fate) -> Fate:
        return Fate(
            self.lines + other.lines,
            self.parsed + other.parsed,
            self.unknown + other.unknown,
            self.foreign + other.foreign,
            self.torn + other.torn,
        )


@dataclass(frozen=True)
class ChunkResult:
    """What a chunk gave. ``unknown`` has the columns of ``RECORD``; ``repeats`` counts Ray's dropped lines.

    ``messages``: rows by rule, with what the rule captured but without its constants (:func:`with_constants`).
    ``warned``: the rules of which a row is as loud as a warning (``LOUD``).

    ``heads``: one row a distinct head (``HEAD``), in the order of ``_hid``, with the first ``_line`` that has it and
    the number of its lines.
    """

    messages: dict[str, pl.DataFrame]
    unknown: pl.DataFrame
    foreign: pl.DataFrame
    heads: pl.DataFrame
    fate: Fate
    warned: frozenset[str] = frozenset()
    torn_lines: tuple[int, ...] = ()
    repeats: tuple[int, int] = (0, 0)


def attach_heads(
    rows: pl.DataFrame, heads: pl.DataFrame, columns: Sequence[str] = tuple(HEAD)
) -> pl.DataFrame:
    """Rows with the columns of their head instead of its number."""
    numbers = rows["_hid"]
    rest = rows[[c for c in rows.columns if c != "_hid"]]
    if not rows.height:
        return rest.with_columns(pl.lit(None, HEAD[c]).alias(c) for c in columns)
    return rest.hstack([heads[c].gather(numbers) for c in columns])


def with_constants(rows: pl.DataFrame, message: Message) -> pl.DataFrame:
    """Rows of a rule with the columns that its directives set."""
    columns = [pl.Series(k, [v]).new_from_index(0, rows.height) for k, v in message.constants.items()]
    return rows.hstack(columns) if columns else rows


def shifted(rows: pl.DataFrame, column: str, by: int) -> pl.DataFrame:
    """Rows with a number added to a column, if they have it."""
    if not by or column not in rows.columns:
        return rows
    return rows.clone().replace_column(rows.get_column_index(column), rows[column] + by)


def moved(result: ChunkResult, before: int) -> ChunkResult:
    """The result of a chunk with the line numbers that it has behind so many lines."""
    return replace(
        result,
        messages={name: shifted(rows, "_line", before) for name, rows in result.messages.items()},
        unknown=shifted(result.unknown, "_line", before),
        foreign=shifted(result.foreign, "_line", before),
        heads=shifted(result.heads, "_line", before),
        torn_lines=tuple(line + before for line in result.torn_lines),
        repeats=(result.repeats[0], result.repeats[1] + before if result.repeats[1] else 0),
    )
