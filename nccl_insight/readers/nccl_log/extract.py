"""Typed columns out of the texts of one rule, all rows at once."""

from dataclasses import replace
from typing import Final

import polars as pl

from nccl_insight.base import late
from nccl_insight.language.catalog import Match
from nccl_insight.language.compile import Compiled, python_pattern

_FEW: Final = 1000


def typed(column: pl.Series, dtype: str) -> pl.Series:
    """A captured string column as its declared type; values that do not fit become null.

    Integers that NCCL printed unsigned (18446744073709551614) become negative.
    """
    values: pl.Series = column
    if dtype == "int":
        values = column.cast(pl.Int64, strict=False)
        if values.null_count() > column.null_count():
            unsigned: pl.Series = column.cast(pl.UInt64, strict=False).reinterpret(signed=True)
            values = values.zip_with(values.is_not_null(), unsigned)
    elif dtype == "float":
        values = column.cast(pl.Float64, strict=False)
    elif dtype == "ints":
        values = column.str.extract_all("-?[0-9]+").cast(pl.List(pl.Int64), strict=False)
    elif dtype == "strs":
        values = column.str.extract_all(r"[^\s,]+")
    return values


def extract(
    rule: Compiled, texts: pl.Series, unwanted: frozenset[str] = frozenset()
) -> tuple[pl.Series, list[pl.Series]]:
    """Which texts the rule accepts, and its typed columns (null where it does not) but for ``unwanted`` ones.

    Few texts go through Python's engine, because compiling a pattern for Rust's costs more than it saves.
    Works on series: the set-up of an expression engine would cost more than the few texts of most rules.
    """
    if unwanted:
        rule = _without(rule, unwanted)
    take = _by_python if texts.len() <= _FEW else _by_polars
    accepted, captured = take(rule, texts)
    dtypes = dict(rule.columns)
    return accepted, [typed(column, dtypes[column.name]) for column in captured]


def _without(rule: Compiled, unwanted: frozenset[str]) -> Compiled:
    """The rule without some of its captures; those that a guard checks stay."""
    kept = {guard.group for guard in rule.guards} | {c for c in rule.groups if rule.groups.count(c) > 1}
    drop = unwanted - kept
    pattern = rule.pattern
    for name in drop:
        pattern = pattern.replace(f"(?P<{name}>", "(?:")
    columns = tuple(c for c in rule.columns if c[0] not in drop)
    return replace(rule, pattern=pattern, columns=columns, groups=tuple(c for c in rule.groups if c not in drop))


def _by_polars(rule: Compiled, texts: pl.Series) -> tuple[pl.Series, list[pl.Series]]:
    if not rule.columns:
        return texts.str.contains(f"^(?:{rule.pattern})$"), []
    # The empty group tells a match, in which every column may be empty, from none.
    groups = texts.str.extract_groups(f"^(?P<_matched>)(?:{rule.pattern})$").struct.unnest()
    accepted = groups["_matched"].is_not_null()
    for guard in rule.guards:
        probe = (groups[guard.group] + guard.literal[:-1]).str.contains(guard.literal, literal=True)
        accepted &= ~probe.fill_null(False)
    return accepted, _columns(rule, groups.drop("_matched").get_columns())


def _columns(rule: Compiled, groups: list[pl.Series]) -> list[pl.Series]:
    """The columns of a rule's groups; of those that fill the same column at most one has a value."""
    found: dict[str, pl.Series] = {}
    for column, group in zip(rule.groups, groups, strict=True):
        first = found.get(column)
        found[column] = group.alias(column) if first is None else first.zip_with(first.is_not_null(), group)
    return list(found.values())


def _by_python(rule: Compiled, texts: pl.Series) -> tuple[pl.Series, list[pl.Series]]:
    match = late.made(python_pattern(rule.pattern, rule.guards)).fullmatch
    found = [match(text) for text in texts.to_list()]
    if rule.guards:
        found = [m if m and all(g.holds(m[g.group] or "") for g in rule.guards) else None for m in found]
    accepted = pl.Series("a", [m is not None for m in found], dtype=pl.Boolean)
    if not rule.columns:
        return accepted, []
    # Every group of a rule's pattern is named and belongs to a column.
    nothing = (None,) * len(rule.groups)
    values = list(zip(*(m.groups() if m else nothing for m in found), strict=True)) or [()] * len(rule.groups)
    return accepted, _columns(rule, [pl.Series("", v, dtype=pl.String) for v in values])


def row_of(match: Match, dtypes: dict[str, str]) -> dict[str, object]:
    """Typed captures of a single match, the same way as :func:`extract` does."""
    return {k: typed(pl.Series(k, [v]), dtypes[k]).to_list()[0] for k, v in match.captures.items()}
