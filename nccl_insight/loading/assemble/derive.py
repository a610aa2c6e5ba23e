"""What columns the tables of logs can have: those that the grammar captures, as the assembly leaves them.

The result is kept in ``tables/columns.txt`` (``python tools/columns.py``), because compiling every rule takes longer
than reading a small log.
"""

from collections.abc import Mapping
from typing import Final

import polars as pl

from nccl_insight.language.catalog import Catalog, default_catalog
from nccl_insight.language.syntax import Message
from nccl_insight.loading.assemble.base import stack
from nccl_insight.loading.assemble.tables import assemble
from nccl_insight.readers.nccl_log.keep import slim
from nccl_insight.readers.nccl_log.log import LogPart
from nccl_insight.readers.nccl_log.records import HEAD, RECORD
from nccl_insight.tables import schema

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
