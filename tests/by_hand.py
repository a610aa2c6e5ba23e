"""Runs whose tables are written out by hand, row by row."""

from __future__ import annotations

from typing import Any

import polars as pl

from nccl_insight.tables import schema
from nccl_insight.tables.run import Run, build_run


def rows(name: str, *given: dict[str, Any]) -> pl.DataFrame:
    """A table with all its declared columns; what a row does not name is null."""
    columns = dict.fromkeys(column for row in given for column in row)
    known = {column: schema.SCHEMA[name][column] for column in columns}
    return schema.complete(name, pl.DataFrame([{**dict.fromkeys(columns), **row} for row in given], schema=known))


def run(**tables: list[dict[str, Any]]) -> Run:
    """A run of these tables, each given as its rows."""
    return build_run({name: rows(name, *given) for name, given in tables.items()})
