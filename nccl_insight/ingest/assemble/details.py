"""Large tables of inner workings, put together piece by piece: a verbose log has millions of their rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import polars as pl

from nccl_insight.grammar.syntax import Grammar
from nccl_insight.ingest.assemble.base import finish, table_rows
from nccl_insight.ingest.log import LogPart

_PIECE_ROWS: Final = 100_000
_Piece = tuple[dict[str, list[pl.DataFrame]], pl.DataFrame]


class DetailTable:
    """A table that exists as the rows of its rules, chunk by chunk, until it is asked for."""

    def __init__(self, pieces: Sequence[_Piece], grammar: Grammar) -> None:
        self._pieces = pieces
        self._grammar = grammar
        samples: dict[str, list[pl.DataFrame]] = {}
        for rules, _ in pieces:
            for name, frames in rules.items():
                samples.setdefault(name, [frames[0].clear()])
        self.schema: Final = self._assembled(dict(sorted(samples.items())), pieces[0][1]).schema

    @property
    def height(self) -> int:
        """Number of rows."""
        return sum(f.height for rules, _ in self._pieces for frames in rules.values() for f in frames)

    def frames(self) -> Iterator[pl.DataFrame]:
        """The rows in reading order, in frames of the same columns."""
        for rules, heads in self._pieces:
            rows = self._assembled(rules, heads)
            yield rows.select(
                pl.col(name).cast(dtype) if name in rows.columns else pl.lit(None, dtype).alias(name)
                for name, dtype in self.schema.items()
            )

    def _assembled(self, rules: dict[str, list[pl.DataFrame]], heads: pl.DataFrame) -> pl.DataFrame:
        return finish(table_rows(sorted(rules), rules, self._grammar, heads))


def _pieces(chunks: Sequence[Mapping[str, pl.DataFrame]], heads: pl.DataFrame) -> Iterator[_Piece]:
    rules: dict[str, list[pl.DataFrame]] = {}
    rows = 0
    for chunk in chunks:
        for name, frame in chunk.items():
            rules.setdefault(name, []).append(frame)
            rows += frame.height
        if rows >= _PIECE_ROWS:
            yield rules, heads
            rules, rows = {}, 0
    if rules:
        yield rules, heads


def detail_tables(parts: Sequence[LogPart], grammar: Grammar) -> dict[str, DetailTable]:
    """The large tables of all logs by name."""
    pieces: dict[str, list[_Piece]] = {}
    for part in parts:
        for table, chunks in part.details.items():
            pieces.setdefault(table, []).extend(_pieces(chunks, part.heads))
    return {table: DetailTable(found, grammar) for table, found in pieces.items()}
