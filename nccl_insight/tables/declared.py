"""Reads ``columns.txt``, the one place where tables and their columns are declared: names, types and meanings.

A table's section begins with ``# name`` or ``# name: what a row is``; one line says what the table is. A column is
``name | type`` or ``name | type | sentence``. Columns before ``-- readers`` are the contract: code that puts a table
together may count on them. Below are those of readers of traces and side files, and below ``-- captured`` those of
the grammar's rules, which ``tools/columns.py`` lists. ``# shared`` has the columns that mean the same in every table: a
column without a sentence has the one there, with ``{row}`` replaced by what a row of its table is. A type that is the
name of a shared column is that column's type.
"""

from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any, Final, NamedTuple

import polars as pl

from nccl_insight.base.data import dataclass

SHARED: Final = "shared"
CONTRACT: Final = "contract"
READERS: Final = "readers"
CAPTURED: Final = "captured"

_TYPES: Final[Mapping[str, pl.DataType]] = {
    "bool": pl.Boolean(), "str": pl.String(), "i8": pl.Int8(), "i16": pl.Int16(), "i32": pl.Int32(),
    "i64": pl.Int64(), "u8": pl.UInt8(), "u16": pl.UInt16(), "u32": pl.UInt32(), "u64": pl.UInt64(),
    "f32": pl.Float32(), "f64": pl.Float64(),
}  # fmt: skip


class Column(NamedTuple):
    """One column of a table as it is declared; ``sentence`` is empty where the shared one counts."""

    type: str
    sentence: str
    block: str


@dataclass(frozen=True)
class Table:
    """One table: its name, what a row is ("connection"), what the table is, and the columns by name in order."""

    name: str
    row: str
    about: str
    columns: dict[str, Column]


def declaration() -> str:
    """The text of ``columns.txt``."""
    return resources.files(__package__).joinpath("columns.txt").read_text("utf-8")


def tables(text: str) -> Iterator[Table]:
    """The sections of a declaration in its order, ``shared`` among them."""
    for section in ("\n" + text).split("\n# ")[1:]:
        head, *lines = section.splitlines()
        name, _, row = head.partition(": ")
        about: list[str] = []
        columns: dict[str, Column] = {}
        block = CONTRACT
        for line in lines:
            first, *rest = line.split(" | ", 2)
            if rest:
                columns[first] = Column(rest[0], rest[1] if len(rest) > 1 else "", block)
            elif first.startswith("-- "):
                block = first[3:]
            elif first:
                about.append(first)
        yield Table(name, row, "\n".join(about), columns)


def data_type(name: str, shared: Mapping[str, Column]) -> pl.DataType:
    """The type of a name: ``i64``, ``list[str]``, ``enum{a, b}``, or a shared column. The inverse of type_name."""
    if name in _TYPES:
        return _TYPES[name]
    if name.startswith("list["):
        return pl.List(data_type(name[5:-1], shared))
    if name.startswith("enum{"):
        return pl.Enum(name[5:-1].split(", "))
    return data_type(shared[name].type, shared)


def frame(text: str) -> dict[str, pl.DataType]:
    """Columns of a frame by name, written as the names and the names of their types: ``rank i32, ranks list[i32]``."""
    return {name: data_type(kind, {}) for name, _, kind in (c.strip().partition(" ") for c in text.split(","))}


def type_name(dtype: pl.DataType | type[pl.DataType]) -> str:
    """The name of a type, as columns.txt and docs/tables.md write it."""
    if isinstance(dtype, pl.Enum):
        return "enum{" + ", ".join(dtype.categories) + "}"
    if isinstance(dtype, pl.List):
        inner: Any = dtype.inner
        return f"list[{type_name(inner)}]"
    return next(name for name, known in _TYPES.items() if known == dtype)


def sentences(text: str) -> dict[str, dict[str, str]]:
    """What each column of each table means."""
    declared = {table.name: table for table in tables(text)}
    shared = declared.pop(SHARED).columns
    return {
        name: {
            column: said.sentence or (shared[column].sentence.replace("{row}", table.row) if column in shared else "")
            for column, said in table.columns.items()
        }
        for name, table in declared.items()
    }
