"""Writes what follows from the schema of the tables.

* ``nccl_insight/tables/columns.json``: the columns that the grammar gives to tables
* the last part of ``docs/tables.md``: all columns beyond those that the page describes by hand

Run it after a message got a new column or a reader a new table: ``python tools/columns.py``. A test compares.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl

from nccl_insight.tables import schema
from nccl_insight.tables.assemble.derive import derived_columns

FILE = Path(schema.__file__).with_name("columns.json")
DOCUMENT = Path(__file__).parents[1] / "docs" / "tables.md"
MARK = "## Further columns\n"
_SAID = """
Columns beyond those above, of the same tables and of others: what the messages of logs capture, and what the readers of
traces and side files find. They are always there, and null where nothing filled them. This part is made by
`tools/columns.py`.
"""


def text() -> str:
    """The JSON file as it should be: tables and columns by name, one column a line."""
    found = {
        table: {name: schema.type_name(dtype) for name, dtype in sorted(columns.items())}
        for table, columns in derived_columns().items()
    }
    return json.dumps(found, indent=1) + "\n"


def document() -> str:
    """The page as it should be."""
    by_hand = DOCUMENT.read_text("utf-8").partition(MARK)[0]
    parts = [by_hand + MARK + _SAID]
    for table, columns in sorted(schema.SCHEMA.items()):
        further = {name: t for name, t in columns.items() if name not in schema.CONTRACT.get(table, {})}
        if further:
            listed = ", ".join(f"`{name}` {_shown(dtype)}" for name, dtype in further.items())
            parts.append(f"**`{table}`**: {listed}\n")
    return "\n".join(parts)


def _shown(dtype: pl.DataType | type[pl.DataType]) -> str:
    return schema.type_name(dtype).replace("enum{", "one of ").removesuffix("}")


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
    # The page is made of the new file, which this process read before.
    if "--page" not in sys.argv:
        subprocess.run([sys.executable, __file__, "--page"], check=True)
    else:
        DOCUMENT.write_text(document(), "utf-8")
