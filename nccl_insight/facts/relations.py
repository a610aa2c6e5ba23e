"""Facts as tables: every relation that ``query`` knows beside the tables, as ``columns.txt`` declares it.

A section is ``# name: what a row is``, a line that says what the relation is, ``-- module.function`` of the fact, and a
line for each column: ``name | sentence``, ``name = attribute.path | sentence`` where a row calls it otherwise, or the
name alone where the column means what it means in every table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from importlib import import_module, resources
from operator import attrgetter
from typing import Any, Final

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.errors import UsageError
from nccl_insight.tables import declared, sql
from nccl_insight.tables.run import Run, Tables, near

PREFIX: Final = "fact_"
_NAMED: Final = re.compile(r"\bfact_[a-z0-9_]+", re.IGNORECASE)


@dataclass(frozen=True)
class Relation:
    """A fact that can be queried.

    ``fact``: module and function below :mod:`nccl_insight`. ``columns``: sentence by name; ``paths``: where an
    attribute of a row is called otherwise.
    """

    name: str
    row: str
    about: str
    fact: str
    columns: Mapping[str, str]
    paths: Mapping[str, str]


@cache
def relations() -> Mapping[str, Relation]:
    """All relations by name, in the order of their declaration."""
    shared = next(t for t in declared.tables(declared.declaration()) if t.name == declared.SHARED).columns
    text = resources.files(__package__).joinpath("columns.txt").read_text("utf-8")
    return {known.name: known for known in _sections(text, shared)}


def _known(name: str) -> Relation:
    known = relations()
    if name not in known:
        raise UsageError(f"no fact is called {name!r}{near(name, known)} (query --tables lists them)")
    return known[name]


def _sections(text: str, shared: Mapping[str, declared.Column]) -> Iterator[Relation]:
    for section in ("\n" + text).split("\n# ")[1:]:
        head, about, source, *lines = section.strip().splitlines()
        name, _, row = head.partition(": ")
        columns: dict[str, str] = {}
        paths: dict[str, str] = {}
        for line in lines:
            left, _, sentence = line.partition(" | ")
            column, _, path = left.partition(" = ")
            columns[column] = sentence or shared[column].sentence.replace("{row}", row)
            if path:
                paths[column] = path
        yield Relation(PREFIX + name, row, about, source.removeprefix("-- "), columns, paths)


def relation(run: Run, name: str) -> pl.DataFrame:
    """The rows of a relation with its declared columns.

    Raises:
        UsageError: there is no relation of that name; the message gives the nearest one.
    """
    wanted = _known(name)
    module, _, function = wanted.fact.rpartition(".")
    value: Any = getattr(import_module(f"nccl_insight.{module}"), function)(run)
    if isinstance(value, pl.DataFrame):
        return value.select(*wanted.columns)
    read = {column: attrgetter(wanted.paths.get(column, column)) for column in wanted.columns}
    rows = {column: [_plain(get, row) for row in value] for column, get in read.items()}
    return pl.DataFrame(rows, strict=False)


def _plain(get: attrgetter[Any], row: object) -> object:
    value = get(row)
    if isinstance(value, Enum):
        return value.value
    return list(value) if isinstance(value, tuple) else value


class _WithFacts(Tables):
    """The tables of a run and the relations that a query names."""

    def __init__(self, run: Run, names: frozenset[str]) -> None:
        super().__init__({}, {})
        self._run, self._names = run, names

    def __getitem__(self, name: str) -> pl.DataFrame:
        return relation(self._run, name) if name in self._names else self._run.tables[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names or name in self._run.tables

    def __iter__(self) -> Iterator[str]:
        yield from self._run.tables
        yield from sorted(self._names)

    def __len__(self) -> int:
        return len(self._run.tables) + len(self._names)


def with_facts(run: Run, query: str) -> Run:
    """The run as a query sees it: with the relations that it names among the tables."""
    named = frozenset(name.lower() for name in _NAMED.findall(query)) & relations().keys()
    return Run(_WithFacts(run, named), run.reader, run.inputs, run.asked) if named else run


def columns(name: str) -> pl.DataFrame:
    """Columns of a relation: ``column, meaning``.

    Raises:
        UsageError: there is no relation of that name; the message gives the nearest one.
    """
    return pl.DataFrame(list(_known(name).columns.items()), schema=["column", "meaning"], orient="row")


def overview() -> pl.DataFrame:
    """Names of all tables and relations with their number of columns: ``table, columns``."""
    rows = [(name, len(known.columns)) for name, known in relations().items()]
    return pl.concat([sql.overview(), pl.DataFrame(rows, schema=["table", "columns"], orient="row")])
