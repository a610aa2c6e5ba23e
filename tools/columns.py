"""Writes what follows from the declaration of the tables.

* the columns below ``-- captured`` of ``nccl_insight/tables/columns.txt``: those that the grammar gives to tables
* ``docs/tables.md``, and ``docs/facts.md`` from ``nccl_insight/facts/columns.txt``

Run it after a message got a new column or a sentence in columns.txt changed: ``python tools/columns.py``. A test
compares.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import polars as pl

from nccl_insight.base.errors import InsightError
from nccl_insight.facts.relations import relations
from nccl_insight.language.catalog import Catalog, default_catalog
from nccl_insight.language.syntax import Message
from nccl_insight.loading.assemble.base import stack
from nccl_insight.loading.assemble.tables import assemble
from nccl_insight.readers.nccl_log.keep import slim
from nccl_insight.readers.nccl_log.log import LogPart
from nccl_insight.readers.nccl_log.records import HEAD, RECORD
from nccl_insight.tables import declared, schema
from nccl_insight.tables.declared import CAPTURED, SHARED, Column, Table

FILE = Path(declared.__file__).with_name("columns.txt")
DOCUMENT = Path(__file__).parents[1] / "docs" / "tables.md"
FACTS = Path(__file__).parents[1] / "docs" / "facts.md"
_FACTS_PREFACE = """# Facts

What the checks derive from the tables, as tables of their own:
`nccl-insight query 'select * from fact_absences' run.log`. A fact is worked out when a query names it. Null is
unknown, lists hold ranks or names, and units are in the names.
Facts follow the checks: names and columns may change between versions, unlike those of [tables](tables.md).

This page is made of `nccl_insight/facts/columns.txt` by `tools/columns.py`.
"""
_PREFACE = """# Tables

Every command works on the same tables: `nccl_insight.load(paths).table("connections")` in Python, `nccl-insight tables`
as files, `nccl-insight query` with SQL (`query --schema connections` shows a part of this page). Names and types are
public. A table of a run always has all its columns: null is unknown, or that no line or record of the input told.
Asking for an unknown table or column is an error that says the nearest name. Units are in the names: `_ns`, `_s`,
`_bytes`, `_gbps` (GB/s, 1e9 bytes per second). Rows read from a log carry `input_id` and `line` (1-based); rows read
from a trace carry `input_id`. Tables and columns may be added.

`nccl-insight parse` prints one JSON object a record: `input, line, host, pid, tid, dev, rank, level, source, timestamp,
launcher, message` (the grammar rule, null when none knows the line)`, table, diagnosis, role` (what a line that reports
a failure means, as in `errors`; else null)`, fields, text`; `fields` also hold values that no column
takes, under the word in front of them.

This page is made of `nccl_insight/tables/columns.txt` by `tools/columns.py`.
"""


_TYPES: Final = {
    "int": pl.Int64(), "float": pl.Float64(), "str": pl.String(), "ints": pl.List(pl.Int64()),
    "strs": pl.List(pl.String()),
}  # fmt: skip


def derived_columns() -> dict[str, dict[str, pl.DataType]]:
    """Columns of every table that lines of logs feed, beyond those of the contract, with their types.

    Rules of extensions are left out. The rules' rows, none of each, take the way that rows of a log take.
    """
    catalog = default_catalog()
    own = [m for m in catalog.grammar.messages.values() if m.table and "/" not in m.origin]
    plain = {m.name: slim(m, _no_rows(catalog, m)) for m in own if m.table != "errors"}
    errors = {m.name: _headed(_no_rows(catalog, m)) for m in own if m.table == "errors"}
    none = pl.DataFrame()
    heads = pl.DataFrame(schema={"input_id": pl.UInt16, **HEAD, "_line": pl.UInt64, "_lines": pl.UInt64})
    part = LogPart({}, {}, {}, [plain, errors], none, none, heads, none, none)
    made, later = assemble([part], catalog.grammar)
    frames = {**made, **{name: stack(list(table.frames())) for name, table in later.items()}}
    contract: Mapping[str, schema.Columns] = schema.CONTRACT
    return {
        name: further
        for name, frame in sorted(frames.items())
        if (further := {c: t for c, t in frame.schema.items() if c not in contract.get(name, {})})
    }


def _no_rows(catalog: Catalog, message: Message) -> pl.DataFrame:
    captured = {name: _TYPES[dtype] for name, dtype in catalog.compiled(message.name).columns}
    return pl.DataFrame(schema={"input_id": pl.UInt16, **RECORD, **captured})


def _headed(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of the errors table, which have their head and how often they were repeated."""
    given = pl.DataFrame(schema={**HEAD, "repeats": pl.UInt64})
    return rows.drop("_hid").hstack(given)


def text() -> str:
    """The declaration as it should be: with exactly the columns that rules capture, in the order of their names."""
    now = {table.name: table for table in declared.tables(FILE.read_text("utf-8"))}
    found = derived_columns()
    missing = [Table(name, "", "", {}) for name in sorted(found.keys() - now.keys())]
    return "\n".join(_section(table, _captured(table, found)) for table in [*now.values(), *missing])


def _captured(table: Table, found: dict[str, dict[str, pl.DataType]]) -> dict[str, Column]:
    own = {name for name, column in table.columns.items() if column.block != CAPTURED}
    said = {name: column.sentence for name, column in table.columns.items()}
    types = {n: declared.type_name(t) for n, t in found.get(table.name, {}).items() if n not in own}
    first = [] if own else [name for name in ("input_id", "line") if name in types]
    order = [*first, *sorted(types.keys() - set(first))]
    return {name: Column(types[name], said.get(name, ""), CAPTURED) for name in order}


def _section(table: Table, captured: dict[str, Column]) -> str:
    lines = [f"# {table.name}" + (f": {table.row}" if table.row else "")]
    lines += [table.about] if table.about else []
    block = declared.CONTRACT
    kept = {name: column for name, column in table.columns.items() if column.block != CAPTURED}
    for name, column in (kept | captured).items():
        if column.block != block:
            lines.append(f"-- {(block := column.block)}")
        lines.append(" | ".join(filter(None, (name, column.type, column.sentence))))
    return "\n".join(lines) + "\n"


def document(declaration: str) -> str:
    """The page that a declaration gives."""
    declared_tables = {table.name: table for table in declared.tables(declaration)}
    shared = declared_tables.pop(SHARED).columns
    parts = [_PREFACE]
    for name, said in declared.sentences(declaration).items():
        table = declared_tables[name]
        parts.append(f"## `{name}`\n")
        parts += [table.about + "\n"] if table.about else []
        parts.append("| Column | Type | Meaning |\n|---|---|---|")
        parts += [
            f"| `{column}` | {_shown(declared.data_type(told.type, shared))} | {said[column]} |"
            for column, told in table.columns.items()
        ]
        parts[-1] += "\n"
    return "\n".join(parts)


def facts_document() -> str:
    """The page of all relations."""
    parts = [_FACTS_PREFACE]
    for known in relations().values():
        rows = "".join(f"| `{column}` | {sentence} |\n" for column, sentence in known.columns.items())
        parts.append(f"## `{known.name}`\n\n{known.about} One row per {known.row}.\n")
        parts.append(f"| Column | Meaning |\n|---|---|\n{rows}")
    return "\n".join(parts)


def _shown(dtype: pl.DataType) -> str:
    return declared.type_name(dtype).replace("enum{", "one of ").removesuffix("}")


if __name__ == "__main__":
    try:
        FILE.write_text(text(), "utf-8")
    except InsightError as error:  # a column that grammars/fields.lark does not have, or another fault of a grammar
        sys.exit(f"{Path(__file__).name}: {error}")
    DOCUMENT.write_text(document(FILE.read_text("utf-8")), "utf-8")
    FACTS.write_text(facts_document(), "utf-8")
