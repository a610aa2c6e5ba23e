"""The columns ``diagnosis`` and ``role`` of rows of a message, from the meaning that its grammar rule gives."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Final, TypeAlias

import polars as pl

from nccl_insight.language.meanings import Case, Meaning, Test, parse_case
from nccl_insight.language.syntax import Message
from nccl_insight.tables.normalise.ends import OTHER, UNEXPLAINED
from nccl_insight.tables.schema import is_loud

# A warning of which the grammar knows the wording, and which says of no meaning: its values feed another table.
_NOTE: Final = Meaning(OTHER, "benign")
# What a failure line means that no rule of the grammar knows, by the only patterns over texts outside the grammar. They
# serve such lines alone, so what they say is a guess: findings that rest on them have low confidence.
_CASES: Final = resources.files(__package__).joinpath("fallback.txt").read_text("utf-8").splitlines()[1:]
FALLBACK: Final = Meaning(UNEXPLAINED, "root", tuple(parse_case(c, "fallback") for c in _CASES))

_RANGE: Final = re.compile(r"(-?[0-9]+)\.\.(-?[0-9]+)")
_COLUMN: Final = re.compile(r"\{([a-z_]+)\}")
_HEAD: Final = {"level": "_level", "text": "_body"}
_FILE: Final = r"([^/ ()]+?\.[A-Za-z]+)(?::[0-9]+)?(?: \([^()]*\))?$"
_FUNCTION: Final = r"\(([^()]*)\)$"

# Up to so many rows, looking through their texts one word at a time is faster than setting up a query.
_FEW: Final = 1000

_Columns: TypeAlias = Mapping[str, pl.DataType]

_COLUMNS: Final = ("error_text", "errno_text")
_MOST: Final = 4096


def in_english(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the reasons of system calls in English, for comparisons: a program that calls setlocale() prints
    them in the language of the user (``strerror.txt``)."""
    columns = [c for c in _COLUMNS if rows.schema.get(c) == pl.String]
    if not columns and "_body" in rows.columns:
        columns = ["_body"]
    for column in columns:
        texts = rows[column].drop_nulls().unique()
        if len(texts) > _MOST:
            continue
        new = {
            text: english
            for text in texts.to_list()
            if (english := _body(text) if column == "_body" else _english().get(text.strip().rstrip(".").lower()))
            is not None
        }
        if new:
            rows = rows.with_columns(pl.col(column).replace(new))
    return rows


@cache
def _english() -> dict[str, str]:
    """The English text of each other one, read for the first log that needs it."""
    found, english = {}, ""
    for line in resources.files(__package__).joinpath("strerror.txt").read_text("utf-8").splitlines():
        if line.startswith(" "):
            found[line.strip()] = english
        elif line and not line.startswith("#"):
            english = line
    return found


@cache
def _any() -> re.Pattern[str]:
    """Any of the texts."""
    return re.compile("|".join(re.escape(t) for t in sorted(_english(), key=len, reverse=True)))


def _body(text: str) -> str | None:
    if text.isascii():
        return None
    said = _any().sub(lambda found: _english()[found[0]], text.lower())
    return said if said != text.lower() else None


def _text(have: _Columns, column: str) -> pl.Expr | None:
    """A column for a comparison: a capture, or what the line's head says under that name."""
    if column == "source":
        found = [pl.col(c) for c in ("_source", "file") if c in have]
        return pl.coalesce(found) if found else None
    if column == "function":
        found = [pl.col("function")] if "function" in have else []
        found += [pl.col("_source").str.extract(_FUNCTION)] if "_source" in have else []
        return pl.coalesce(found) if found else None
    name = column if column in have else _HEAD.get(column, column)
    return pl.col(name) if name in have else None


def _numbers(value: pl.Expr, values: tuple[str, ...]) -> pl.Expr:
    holds = pl.lit(False)
    plain: list[int] = []
    for wanted in values:
        if span := _RANGE.fullmatch(wanted):
            holds |= value.is_between(int(span[1]), int(span[2]))
        elif re.fullmatch(r"-?[0-9]+", wanted):
            plain.append(int(wanted))
    return holds | value.is_in(plain) if plain else holds


def _holds(have: _Columns, test: Test) -> pl.Expr | None:
    """The test as an expression; None where the rows lack the column."""
    value = _text(have, test.column)
    if value is None:
        return None
    if (other := _COLUMN.fullmatch(test.values[0])) is not None:
        compared = _text(have, other[1])
        return None if compared is None else (value == compared).fill_null(False)
    dtype = have.get(test.column)
    if dtype is not None and dtype.is_numeric():
        return _numbers(value.cast(pl.Int64, strict=False), test.values).fill_null(False)
    text = value.cast(pl.String, strict=False).str.to_lowercase()
    wanted = [v.lower() for v in test.values]
    if test.operator.endswith("~"):
        return text.str.contains_any(wanted).fill_null(False)
    if test.column == "source":
        text = text.str.extract(_FILE)
    return text.is_in(wanted).fill_null(False)


def _condition(have: _Columns, case: Case) -> pl.Expr | None:
    condition: pl.Expr | None = None
    for test in case.tests:
        holds = _holds(have, test)
        if test.operator.startswith("!"):
            holds = ~holds if holds is not None else pl.lit(True)
        if holds is None:
            return None
        condition = holds if condition is None else condition & holds
    return pl.lit(True) if condition is None else condition


def with_meaning(rows: pl.DataFrame, meaning: Meaning) -> pl.DataFrame:
    """The rows of one message with ``diagnosis`` and ``role`` (both str; null where a case says that there is none)."""
    diagnosis, role = pl.lit(meaning.diagnosis), pl.lit(meaning.role)
    given = in_english(rows) if meaning.cases else rows
    have = given.schema
    for case in reversed(_possible(given, meaning.cases)):
        condition = _condition(have, case)
        if condition is None:
            continue
        named = (None, None) if case.silent else (case.diagnosis or meaning.diagnosis, case.role or meaning.role)
        diagnosis = pl.when(condition).then(pl.lit(named[0], pl.String)).otherwise(diagnosis)
        role = pl.when(condition).then(pl.lit(named[1], pl.String)).otherwise(role)
    decided = given.with_columns(diagnosis=diagnosis, role=role).select("diagnosis", "role")
    return rows.with_columns(decided.get_columns())


def _possible(rows: pl.DataFrame, cases: Sequence[Case]) -> Sequence[Case]:
    """The cases of which every value looked for stands in some row; of the others no row can be.

    Of many rows all of them: looking for words one by one would take longer than the query.
    """
    if rows.height > _FEW:
        return cases
    said: dict[str, str | None] = {}
    none = pl.Series([], dtype=pl.String)

    def can_hold(test: Test) -> bool:
        if test.operator not in "=~" or test.column in ("source", "function") or _COLUMN.fullmatch(test.values[0]):
            return True
        if test.column not in said:
            name = test.column if test.column in rows.columns else _HEAD.get(test.column, test.column)
            given = rows[name] if name in rows.columns else none
            given = given.cast(pl.Int64, strict=False) if given.dtype.is_float() else given
            values = (str(value) for value in given.to_list() if value is not None)
            said[test.column] = None if given.dtype.is_nested() else "\n".join(values).lower()
        whole = said[test.column]
        return whole is None or any(value.lower() in whole or _RANGE.fullmatch(value) for value in test.values)

    return [case for case in cases if all(can_hold(test) for test in case.tests)]


def _hopeful(rows: pl.DataFrame, cases: Sequence[Case]) -> pl.Series | None:
    """The rows that pass a first test of some case, each column looked through once; None where a case has none that
    is as simple."""
    wanted: dict[tuple[str, str], set[str]] = {}
    for case in cases:
        simple = [t for t in case.tests if t.operator in "=~" and t.column not in ("source", "function")]
        named = [(t.column if t.column in rows.columns else _HEAD.get(t.column, t.column), t) for t in simple]
        if any(name not in rows.columns for name, _ in named):
            continue
        plain = [(name, t) for name, t in named if rows[name].dtype == pl.String and not _COLUMN.fullmatch(t.values[0])]
        if not plain:
            return None
        name, test = plain[0]
        wanted.setdefault((name, test.operator), set()).update(value.lower() for value in test.values)
    held: pl.Series = pl.Series([False]).new_from_index(0, rows.height)
    for (name, operator), values in wanted.items():
        some = "|".join(map(re.escape, sorted(values)))
        held |= rows[name].str.contains(f"(?i:{some})" if operator == "~" else f"^(?i:{some})$").fill_null(False)
    return held


def words(rows: pl.DataFrame, cases: Sequence[Case]) -> pl.Series:
    """What lines say of a topic (str): the word of the first case whose tests hold, null where none does.

    ``rows`` of any table with text; a case's ``source`` is their ``file``, else their ``source``.
    """
    if rows.is_empty():
        return pl.Series("word", [], pl.String)
    possible = _possible(rows, cases)
    none: pl.Series = pl.Series("word", [None], pl.String).new_from_index(0, rows.height)
    hopeful = _hopeful(rows, possible) if rows.height > _FEW else None
    if hopeful is not None and not hopeful.all():
        at = hopeful.arg_true()
        return none.scatter(at, words(rows[at], possible)) if len(at) else none
    if not possible:
        return none
    places = [pl.col(c).cast(pl.String) for c in ("file", "source") if c in rows.columns]
    rows = rows.with_columns(_source=pl.coalesce(places)) if places else rows
    have = rows.schema
    conditions = [(_condition(have, case), case.diagnosis) for case in reversed(possible)]
    told = [(condition, said) for condition, said in conditions if condition is not None]
    if not told:
        return none
    word = pl.lit(None, pl.String)
    for condition, said in told:
        word = pl.when(condition).then(pl.lit(said, pl.String)).otherwise(word)
    return rows.select(pl.repeat(None, pl.len(), dtype=pl.String).alias("_none"), word.alias("word"))["word"]


def meanings(rows: pl.DataFrame, message: Message | None) -> pl.DataFrame:
    """``diagnosis`` and ``role`` of lines with their heads' columns; null where a line reports no failure.

    ``message`` is the rule of the rows, or None for lines that no rule knows.
    """
    if message is not None and message.meaning is not None:
        return with_meaning(rows, message.meaning).select("diagnosis", "role")
    given = FALLBACK if message is None or message.table == "errors" else _NOTE
    loud = is_loud(pl.col("_level"))
    return with_meaning(rows, given).select(
        pl.when(loud).then(c).otherwise(None).alias(c) for c in ("diagnosis", "role")
    )
