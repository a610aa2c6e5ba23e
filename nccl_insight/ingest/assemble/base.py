"""Rows of tables from rows of messages; positions that order the lines of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from nccl_insight.grammar.syntax import Grammar
from nccl_insight.ingest.normalise import NORMALISERS

# What a row keeps of its head until the tables are finished; they begin with `_` so that no capture clashes.
HEAD: Final = (
    "input_id", "_line", "_sub", "_level", "_host", "_pid", "_tid", "_dev", "_source", "_timestamp",
    "_launcher_rank", "_body",
)  # fmt: skip
POSITION: Final = (
    (pl.col("input_id").cast(pl.UInt64) * (1 << 44)) + pl.col("_line") * 16 + pl.col("_sub")
).alias("_pos")


def table_rows(messages: Mapping[str, pl.DataFrame], grammar: Grammar) -> dict[str, pl.DataFrame]:
    """Rows by table name, normalised, with ``message`` and the head columns (``_...``), in reading order."""
    parts: dict[str, list[pl.DataFrame]] = {}
    for name, frame in messages.items():
        rule = grammar.messages.get(name)
        if rule is None or rule.table is None or not frame.height:
            continue
        rows = frame
        for step in rule.directives.get("normalise", "").replace(",", " ").split():
            if step in NORMALISERS:
                rows = NORMALISERS[step](rows)
        family = rule.directives.get("family")
        if family and "family" not in rows.columns:
            rows = rows.with_columns(family=pl.lit(family))
        parts.setdefault(rule.table, []).append(rows.with_columns(message=pl.lit(name), _pos=POSITION))
    return {table: _in_order(frames) for table, frames in parts.items()}


def _in_order(frames: list[pl.DataFrame]) -> pl.DataFrame:
    rows = pl.concat(frames, how="diagonal_relaxed") if len(frames) > 1 else frames[0]
    return rows if rows["_pos"].is_sorted() else rows.sort("_pos", maintain_order=True)


def finish(rows: pl.DataFrame, also: Mapping[str, str] | None = None) -> pl.DataFrame:
    """Head columns under their public names (``line``, ``host``, ``pid`` ...) where no capture has that name."""
    names = {"_line": "line", "_host": "host", "_pid": "pid", **(also or {})}
    moved = {old: new for old, new in names.items() if old in rows.columns and new not in rows.columns}
    out = rows.rename(moved)
    return out.drop([c for c in out.columns if c.startswith("_")])


def column(frame: pl.DataFrame, name: str, dtype: pl.DataType | type[pl.DataType]) -> pl.Expr:
    """The column, or nulls of that type when no message gave it."""
    return (
        pl.col(name).cast(dtype, strict=False) if name in frame.columns else pl.lit(None, dtype).alias(name)
    )
