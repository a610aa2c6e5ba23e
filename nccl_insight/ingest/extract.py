"""Typed columns out of the texts of one rule, all rows at once."""

from __future__ import annotations

from typing import Final

import polars as pl

from nccl_insight.grammar.catalog import Match
from nccl_insight.grammar.compile import Compiled

_ALL: Final = "_matched"


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
    """
    groups = pl.col("_body").str.extract_groups(f"^(?P<{_ALL}>{rule.pattern})$").alias("_g")
    out = frame.with_columns(groups).unnest("_g")
    accepted = pl.col(_ALL).is_not_null()
    for guard in rule.guards:
        probe = (pl.col(guard.column) + guard.literal[:-1]).str.contains(guard.literal, literal=True)
        accepted &= ~probe.fill_null(False)
    kept = out.filter(accepted)
    dropped = frame if not kept.height else frame.filter(~out.select(accepted.alias("a"))["a"])
    kept = kept.with_columns(
        *(typed(n, t) for n, t in rule.columns if t != "str"),
        *(pl.lit(v).alias(k) for k, v in rule.message.constants.items()),
    ).drop(_ALL)
    return kept, dropped


def row_of(match: Match, dtypes: dict[str, str]) -> dict[str, object]:
    """Typed captures of a single match, the same way as :func:`extract` does."""
    if not match.captures:
        return dict(match.message.constants)
    frame = pl.DataFrame({k: [v] for k, v in match.captures.items()}).with_columns(
        typed(k, dtypes[k]) for k in match.captures
    )
    return {**frame.row(0, named=True), **match.message.constants}
