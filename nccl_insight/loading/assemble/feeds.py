"""The rows of all logs, given out table by table, whole or in pieces.

A table of millions of rows is put together piece by piece: joining its rules' rows all at once would need
several times its own memory.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import polars as pl

from nccl_insight.base.grouping import grouped
from nccl_insight.language.syntax import Grammar
from nccl_insight.loading.assemble.base import Frames, finish, table_rows
from nccl_insight.readers.nccl_log.log import LogPart
from nccl_insight.readers.nccl_log.records import shifted

PROCESS: Final = ("_host", "_pid")
# What tells the thread that printed a line, and a number that stands for all of it.
THREAD_KEY: Final = ("input_id", "_host", "_pid", "_tid", "_dev")
THREAD: Final = "_thread"
_PIECE_ROWS: Final = 100_000


class Feeds:
    """Rows by rule of all logs."""

    def __init__(self, parts: Sequence[LogPart], grammar: Grammar) -> None:
        self._grammar = grammar
        heads = pl.concat([part.heads for part in parts])
        self._heads = heads.hstack([heads.select(pl.struct(THREAD_KEY).hash().alias(THREAD)).to_series()])
        self._chunks: dict[str, list[dict[str, pl.DataFrame]]] = {}
        first = 0
        for part in parts:
            for chunk in part.chunks:
                tables: dict[str, dict[str, pl.DataFrame]] = {}
                for rule, rows in chunk.items():
                    table = grammar.messages[rule].table
                    if table is not None:
                        tables.setdefault(table, {})[rule] = shifted(rows, "_hid", first)
                for table, rules in tables.items():
                    self._chunks.setdefault(table, []).append(rules)
            first += part.heads.height

    def tables(self) -> list[str]:
        """The tables that have rows, the largest first."""
        return sorted(self._chunks, key=lambda table: (-self.height(table), table))

    def height(self, table: str) -> int:
        """Number of lines that feed a table."""
        return sum(rows.height for chunk in self._chunks.get(table, ()) for rows in chunk.values())

    def has(self, table: str, column: str) -> bool:
        """Whether a rule that feeds a table captured a column."""
        chunks = self._chunks.get(table, ())
        return any(column in rows.columns for chunk in chunks for rows in chunk.values())

    def whole(self, table: str, fields: Sequence[str] = PROCESS) -> pl.DataFrame | None:
        """All rows of a table in reading order, with ``fields`` of their heads; None when there are none."""
        chunks = self._chunks.get(table)
        return self.rows(_by_rule(chunks), fields) if chunks else None

    def pieces(
        self, table: str, fields: Sequence[str] = PROCESS, last: bool = False, captured: Collection[str] | None = None
    ) -> Iterator[pl.DataFrame]:
        """Like :meth:`whole`, in several frames, whose columns may differ. ``last``: lets go of the rows.

        ``captured``: only these of the captured values, not normalised.
        """
        return (self.rows(group, fields, captured) for group in self.groups(table, last))

    def groups(self, table: str, last: bool = False) -> Iterator[Frames]:
        """What the pieces of a table are made from. ``last``: lets go of it."""
        group: list[dict[str, pl.DataFrame]] = []
        rows = 0
        chunks = self._chunks.pop(table) if last else list(self._chunks[table])
        chunks.reverse()
        while chunks:
            chunk = chunks.pop()
            group.append(chunk)
            rows += sum(frame.height for frame in chunk.values())
            if rows >= _PIECE_ROWS:
                yield _by_rule(group)
                group, rows = [], 0
        if group:
            yield _by_rule(group)

    def levels(self, table: str) -> set[str]:
        """The levels of a table's rows, where they are kept."""
        frames = (rows for chunk in self._chunks.get(table, ()) for rows in chunk.values())
        return {str(level) for rows in frames for level in rows["_level"].unique().to_list()}

    def sample(self, table: str, fields: Sequence[str] = PROCESS) -> pl.DataFrame:
        """A frame without rows that has all columns of :meth:`whole`."""
        kinds: dict[str, dict[tuple[tuple[str, str], ...], pl.DataFrame]] = {}
        for chunk in self._chunks[table]:
            for rule, rows in chunk.items():
                kind = tuple((name, str(dtype)) for name, dtype in rows.schema.items())
                kinds.setdefault(rule, {}).setdefault(kind, rows.clear())
        return self.rows({rule: list(found.values()) for rule, found in sorted(kinds.items())}, fields)

    def rows(
        self,
        frames: Frames,
        fields: Sequence[str],
        captured: Collection[str] | None = None,
        wanted: Collection[str] | None = None,
    ) -> pl.DataFrame:
        """See :func:`table_rows`."""
        return table_rows(frames, self._grammar, self._heads, fields, captured, wanted)


def details(feeds: Feeds, table: str, last: bool) -> Iterator[pl.DataFrame]:
    """The rows of a large table of inner workings in reading order, in frames of the same columns.

    ``last`` is of no use: the rows stay, as nobody asks for such a table twice.
    """
    schema = finish(feeds.sample(table)).schema
    for piece in feeds.pieces(table):
        rows = finish(piece)
        yield rows.select(
            pl.col(name).cast(dtype) if name in rows.columns else pl.lit(None, dtype).alias(name)
            for name, dtype in schema.items()
        )


def _by_rule(chunks: Iterable[dict[str, pl.DataFrame]]) -> dict[str, list[pl.DataFrame]]:
    return dict(sorted(grouped(pair for chunk in chunks for pair in chunk.items()).items()))
