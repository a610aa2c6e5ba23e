"""Opening a SQLite export of a profiler safely, and reading its tables as frames."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import polars as pl
import pytest

from nccl_insight.inputs.find import find_inputs
from nccl_insight.readers.nsys.database import Database, open_database, read_database


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


def test_a_table_is_there_with_its_columns(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "n.sqlite")
    db.execute("create table t (a, b)")
    db.executemany("insert into t values (?,?)", [(1, "x"), (2, 7), ("three", None)])
    db.commit()
    db.close()
    (file,) = find_inputs([str(tmp_path / "n.sqlite")])
    with open_database(file) as base:
        assert base.has("t", "a", "b")
        assert not base.has("t", "c")
        assert not base.has("u")
        found = base.frame("select a, b from t", {"a": pl.Int64, "b": pl.String})
        assert found.rows() == [(1, "x"), (2, None), (None, None)]
        assert base.frame("select a from t where a = 9", {"a": pl.Int64}).is_empty()


def test_a_damaged_database_gives_what_was_read_and_a_note(tmp_path: Path) -> None:
    (tmp_path / "n.sqlite").write_bytes(b"SQLite format 3\0" + b"x" * 5_000)
    (file,) = find_inputs([str(tmp_path / "n.sqlite")])

    def tables_of(base: Database, notes: list[tuple[str, str]]) -> dict[str, pl.DataFrame]:
        return {"steps": base.frame("select 1", {"step": pl.Int64})}

    found = read_database(file, tables_of)
    assert "steps" not in found.tables
    assert "the database is damaged or cut" in found.tables["notes"]["detail"][0]
