"""Rows of tables from rows of messages; positions that order the lines of a run."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeAlias

import polars as pl

from nccl_insight.language.syntax import Grammar
from nccl_insight.readers.nccl_log import hexadecimal
from nccl_insight.readers.nccl_log.records import attach_heads, with_constants
from nccl_insight.tables.normalise import NORMALISERS
from nccl_insight.tables.normalise.meaning import with_meaning
from nccl_insight.tables.schema import CONTRACT, Columns

POSITION: Final = ((pl.col("input_id").cast(pl.UInt64) * (1 << 44)) + pl.col("_line") * 16 + pl.col("_sub")).alias(
    "_pos"
)


# Where the line of a row stands.
_PLACE: Final = ("_line", "_sub", "_hid", "input_id")

Frames: TypeAlias = Mapping[str, Sequence[pl.DataFrame]]


def stack(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Frames below each other; columns that one lacks are null."""
    if len(frames) == 1:
        return frames[0]
    same = all(frame.schema == frames[0].schema for frame in frames)
    return pl.concat(frames, how="vertical" if same else "diagonal_relaxed")


def _words(rows: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """Rows with the words that they were kept without; words of an enum of the table are made that at once."""
    types = rows.schema
    numbers = [rows[c] for c in hexadecimal.PREFIXES if types.get(c) == pl.UInt64]
    words = [name for name, dtype in types.items() if dtype == pl.Categorical]
    if words:
        enums = {name: kind for name, kind in columns.items() if isinstance(kind, pl.Enum)}
        rows = rows.with_columns(pl.col(name).cast(enums.get(name, pl.String), strict=False) for name in words)
    return rows.with_columns(map(hexadecimal.unpacked, numbers)) if numbers else rows


def _narrow(rows: pl.DataFrame, kept: Collection[str] | None) -> pl.DataFrame:
    """The rows with where they stand and these columns, else all that rules captured."""
    return rows[[c for c in rows.columns if c in _PLACE or (not c.startswith("_") if kept is None else c in kept)]]


def table_rows(
    frames: Frames,
    grammar: Grammar,
    heads: pl.DataFrame,
    fields: Sequence[str],
    captured: Collection[str] | None = None,
    wanted: Collection[str] | None = None,
) -> pl.DataFrame:
    """Rows of one table from those of its rules in reading order, normalised.

    They have the rule's name as ``message`` and the columns ``fields`` of their heads. ``captured``: only these of
    the values that the rules captured, as they were printed. ``wanted``: of the columns at least these.
    """
    parts: list[pl.DataFrame] = []
    for name, found in frames.items():
        rule = grammar.messages[name]
        steps = rule.directives.get("normalise", "").replace(",", " ").split()
        # Values of other columns may be made of those that are not asked for.
        kept = captured if captured is not None else None if steps else wanted
        columns = CONTRACT.get(rule.table or "", {})
        narrow = kept is not None or wanted is not None
        rows = stack([_words(_narrow(rows, kept) if narrow else rows, columns) for rows in found])
        if captured is not None:
            parts.append(rows.with_columns(POSITION))
            continue
        rows = with_constants(rows, rule)
        if rule.table == "errors" and rule.meaning is not None:
            headed = attach_heads(rows, heads, ["_source"]) if "_hid" in rows.columns else rows
            rows = rows.hstack(with_meaning(headed, rule.meaning).select("diagnosis", "role"))
        for step in steps:
            if step in NORMALISERS:
                rows = NORMALISERS[step](rows)
        parts.append(rows.with_columns(message=pl.lit(name), _pos=POSITION))
    rows = stack(parts)
    rows = rows if rows["_pos"].is_sorted() else rows.sort("_pos", maintain_order=True)
    return attach_heads(rows, heads, fields) if "_hid" in rows.columns and fields else rows


def finish(rows: pl.DataFrame, also: Mapping[str, str] | None = None) -> pl.DataFrame:
    """Head columns under their public names (``line``, ``host``, ``pid`` ...) where no capture has that name."""
    names = {"_line": "line", "_host": "host", "_pid": "pid", **(also or {})}
    moved = {old: new for old, new in names.items() if old in rows.columns and new not in rows.columns}
    kept = [c for c in rows.columns if not moved.get(c, c).startswith("_")]
    out = rows[kept]
    out.columns = [moved.get(c, c) for c in kept]
    return out


def column(frame: pl.DataFrame, name: str, dtype: pl.DataType | type[pl.DataType]) -> pl.Expr:
    """The column, or nulls of that type when no message gave it."""
    return pl.col(name).cast(dtype, strict=False) if name in frame.columns else pl.lit(None, dtype).alias(name)


def of_the_same(value: pl.Expr, same: Sequence[str]) -> pl.Expr:
    """The value of the nearest row above, else below, with these cells in common; null where a cell lacks."""
    near = value.forward_fill().backward_fill().over(same)
    return pl.when(pl.all_horizontal(pl.col(same).is_not_null())).then(near)
