"""Opening a SQLite export of a profiler safely, and reading its tables as frames."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import polars as pl
import pytest

from nccl_insight.inputs.find import find_inputs
from nccl_insight.readers.nsys.database import open_database


def numbers_of(path: Path) -> list[tuple[object, ...]]:
    with open_database(find_inputs([str(path)])[0]) as base:
        return base.numbers("t", {"x": ("a", pl.Int64), "y": ("coalesce(b, c)", pl.Int32)}).rows()


@pytest.mark.parametrize("kind", ["rowid", "without rowid", "named rowid", "blob", "infinity"])
def test_numbers_of_any_table(tmp_path: Path, kind: str) -> None:
    """All rows in order, values of another kind as null, whether or not SQLite can list the values."""
    db = sqlite3.connect(tmp_path / "n.sqlite")
    extra = {"without rowid": ", k integer primary key", "named rowid": ", rowid integer"}.get(kind, ", k integer")
    db.execute(f"create table t (a, b, c{extra}) {'without rowid' if kind == 'without rowid' else ''}")
    rows: list[tuple[object, ...]] = [(1 << 62, None, n, n if kind != "named rowid" else 7) for n in range(9_000)]
    rows[17] = ("12", 2.5, 3, 17)
    rows[8_888] = (None, 'a, "b" [1]', 4, 8_888)
    if kind == "blob":
        rows[5_000] = (b"\x00\xff", 1 << 40, 3, 5_000)
    if kind == "infinity":
        rows[5_000] = (float("inf"), 1 << 40, 3, 5_000)
    db.executemany("insert into t values (?,?,?,?)", rows)
    db.commit()
    db.close()
    expected: list[tuple[object, ...]] = [(1 << 62, n) for n in range(9_000)]
    expected[17] = expected[8_888] = (None, None)
    if kind in ("blob", "infinity"):
        expected[5_000] = (None, None)
    assert numbers_of(tmp_path / "n.sqlite") == expected
