"""Typed columns out of the texts of one rule, all rows at once."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import polars as pl

from nccl_insight.grammar.catalog import Match
from nccl_insight.grammar.compile import Compiled, python_pattern

_ALL: Final = "_matched"
_FEW: Final = 1500


def typed(name: str, dtype: str) -> pl.Expr:
    """A captured string column as its declared type; values that do not fit become null.

    Integers that NCCL printed unsigned (18446744073709551614) become negative.
    """
    column = pl.col(name)
    if dtype == "int":
        signed = column.cast(pl.Int64, strict=False)
        unsigned = column.cast(pl.UInt64, strict=False).reinterpret(signed=True)
        return pl.coalesce(signed, unsigned).alias(name)
    if dtype == "float":
        return column.cast(pl.Float64, strict=False).alias(name)
    if dtype == "ints":
        return (
            column.str.extract_all("-?[0-9]+")
            .list.eval(pl.element().cast(pl.Int64, strict=False))
            .alias(name)
        )
    if dtype == "strs":
        return column.str.extract_all("[^ ,]+").alias(name)
    return column


def extract(rule: Compiled, frame: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows that the rule accepts with their typed columns added, and the rows that it does not accept.

    The text is in ``_body``. Rows keep their other columns (which all begin with ``_``) and their order.
    Few rows go through Python's engine, because compiling a pattern for Rust's costs more than it saves.
    """
    if frame.height <= _FEW:
        accepted, captured = _by_python(rule, frame["_body"])
    else:
        accepted, captured = _by_polars(rule, frame["_body"])
    if accepted.all():
        kept, dropped = frame, frame.clear()
    else:
        kept, dropped = frame.filter(accepted), frame.filter(~accepted)
        captured = captured.filter(accepted) if captured.width else captured
    if captured.width:
        kept = kept.hstack(captured.select(typed(name, dtype) for name, dtype in rule.columns))
    constants = rule.message.constants
    return kept.with_columns(pl.lit(v).alias(k) for k, v in constants.items()) if constants else kept, dropped


def _by_polars(rule: Compiled, texts: pl.Series) -> tuple[pl.Series, pl.DataFrame]:
    if not rule.columns:
        return texts.str.contains(f"^(?:{rule.pattern})$"), pl.DataFrame()
    groups = texts.str.extract_groups(f"^(?P<{_ALL}>{rule.pattern})$").struct.unnest()
    accepted = groups[_ALL].is_not_null()
    for guard in rule.guards:
        probe = (groups[guard.column] + guard.literal[:-1]).str.contains(guard.literal, literal=True)
        accepted &= ~probe.fill_null(False)
    return accepted, groups.drop(_ALL)


def _by_python(rule: Compiled, texts: pl.Series) -> tuple[pl.Series, pl.DataFrame]:
    match = python_regex(python_pattern(rule.pattern, rule.guards)).fullmatch
    found = [match(text) for text in texts.to_list()]
    rows = [m.groupdict() if m else None for m in found]
    good = [r is not None and all(g.holds(r[g.column] or "") for g in rule.guards) for r in rows]
    accepted = pl.Series("a", good, dtype=pl.Boolean)
    if not rule.columns:
        return accepted, pl.DataFrame()
    names = [name for name, _ in rule.columns]
    columns = {n: [r[n] if r else None for r in rows] for n in names}
    return accepted, pl.DataFrame(columns, schema=dict.fromkeys(names, pl.String))


@lru_cache(maxsize=8192)
def python_regex(pattern: str) -> re.Pattern[str]:
    """A rule's pattern for Python's engine."""
    return re.compile(pattern)


def row_of(match: Match, dtypes: dict[str, str]) -> dict[str, object]:
    """Typed captures of a single match, the same way as :func:`extract` does."""
    if not match.captures:
        return dict(match.message.constants)
    frame = pl.DataFrame({k: [v] for k, v in match.captures.items()}).with_columns(
        typed(k, dtypes[k]) for k in match.captures
    )
    return {**frame.row(0, named=True), **match.message.constants}
