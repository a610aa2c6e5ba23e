"""The records of a chunk: their columns, what became of its lines, what a chunk gives."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass, replace
from nccl_insight.language.syntax import Message
from nccl_insight.readers.nccl_log import head

HEAD: Final = {f"_{name}": dtype for name, dtype in head.COLUMNS.items()}
RECORD: Final = {"_line": pl.UInt64, "_sub": pl.UInt16, "_level": pl.String, "_hid": pl.UInt32, "_body": pl.String}


@dataclass(frozen=True)
class Fate:
    """Physical lines by what became of them, and the last of the foreign ones that is not blank (0: there is none)."""

    lines: int = 0
    parsed: int = 0
    unknown: int = 0
    foreign: int = 0
    torn: int = 0
    last_foreign: int = 0

    def __add__(self, other: Fate) -> Fate:
        """Both, where the lines of ``other`` come behind."""
        return Fate(
            self.lines + other.lines,
            self.parsed + other.parsed,
            self.unknown + other.unknown,
            self.foreign + other.foreign,
            self.torn + other.torn,
            self.lines + other.last_foreign if other.last_foreign else self.last_foreign,
        )


@dataclass(frozen=True)
class Counts:
    """By input: lines by fate, torn lines, how many lines Ray left out and the first that says so."""

    fates: dict[int, Fate]
    torn_lines: dict[int, list[int]]
    repeats: dict[int, tuple[int, int]]

    @property
    def fate(self) -> Fate:
        """Lines of all inputs."""
        return sum(self.fates.values(), Fate())


@dataclass(frozen=True)
class Places:
    """Which input a line of a chunk is of: the inputs, the line at which each begins, and how many lines it has."""

    input_ids: tuple[int, ...]
    starts: tuple[int, ...]
    counts: tuple[int, ...]

    def slots(self, lines: pl.Series) -> pl.Series:
        """Number of the input that each line is of."""
        after: pl.Series = pl.Series(self.starts, dtype=pl.UInt64).search_sorted(lines, side="right")
        slots: pl.Series = after - 1
        return slots

    def count(self, lines: pl.Series) -> list[int]:
        """How many of the lines each input has."""
        if len(self.starts) == 1:
            return [lines.len()]
        found = dict(self.slots(lines).value_counts().iter_rows())
        return [found.get(slot, 0) for slot in range(len(self.starts))]

    def place(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with ``input_id``, and ``_line`` counted from the beginning of the input's part of the chunk."""
        ids = pl.Series("input_id", self.input_ids, dtype=pl.UInt16)
        if len(self.starts) == 1:
            return rows.hstack([ids.new_from_index(0, rows.height)])
        slots = self.slots(rows["_line"])
        starts = pl.Series(self.starts, dtype=pl.UInt64)
        moved = rows.hstack([ids.gather(slots)])
        return moved.replace_column(
            moved.get_column_index("_line"), (rows["_line"] + 1 - starts.gather(slots)).alias("_line")
        )

    def at(self, line: int) -> tuple[int, int]:
        """Input and line of it."""
        slot = bisect_right(self.starts, line) - 1
        return self.input_ids[slot], line + 1 - self.starts[slot]


@dataclass(frozen=True)
class ChunkResult(Counts):
    """What a chunk gave. ``unknown`` has the columns of ``RECORD``; all rows have ``input_id`` besides.

    ``messages``: rows by rule, with what the rule captured but without its constants (:func:`with_constants`).
    ``warned``: the rules of which a row is as loud as a warning (``is_loud``).

    ``foreign``: all other lines (``_line``, ``_text``) but blank ones, ``_likely`` those that may matter to somebody.

    ``outputs``: lines (``_line``, ``_text``) of the outputs of host tools, as they stand.

    ``heads``: one row a distinct head (``HEAD``) of an input, in the order of ``_hid``, with the first ``_line`` that
    has it and the number of its lines.
    """

    messages: dict[str, pl.DataFrame]
    unknown: pl.DataFrame
    foreign: pl.DataFrame
    outputs: pl.DataFrame
    heads: pl.DataFrame
    warned: frozenset[str]


def attach_heads(rows: pl.DataFrame, heads: pl.DataFrame, columns: Sequence[str] = tuple(HEAD)) -> pl.DataFrame:
    """Rows with the columns of their head instead of its number."""
    numbers = rows["_hid"]
    rest = rows[[c for c in rows.columns if c != "_hid"]]
    if not rows.height:
        return rest.with_columns(pl.lit(None, heads.schema[c]).alias(c) for c in columns)
    return rest.hstack(heads[list(columns)][numbers])


def with_constants(rows: pl.DataFrame, message: Message) -> pl.DataFrame:
    """Rows of a rule with the columns that its directives set: numbers as numbers, else text."""
    columns = [
        pl.Series(k, [int(v) if v.isdecimal() else v]).new_from_index(0, rows.height)
        for k, v in message.constants.items()
    ]
    return rows.hstack(columns) if columns else rows


def shifted(rows: pl.DataFrame, column: str, by: int) -> pl.DataFrame:
    """Rows with a number added to a column, if they have it."""
    if not by or column not in rows.columns:
        return rows
    return rows.clone().replace_column(rows.get_column_index(column), rows[column] + by)


def moved(result: ChunkResult, before: int) -> ChunkResult:
    """The result of a chunk with the line numbers that it has behind so many lines."""
    if not before:
        return result
    return replace(
        result,
        messages={name: shifted(rows, "_line", before) for name, rows in result.messages.items()},
        unknown=shifted(result.unknown, "_line", before),
        foreign=shifted(result.foreign, "_line", before),
        outputs=shifted(result.outputs, "_line", before),
        heads=shifted(result.heads, "_line", before),
        torn_lines={i: [line + before for line in lines] for i, lines in result.torn_lines.items()},
        repeats={i: (count, line + before) for i, (count, line) in result.repeats.items()},
    )
