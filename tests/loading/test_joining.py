"""Rows of all inputs to the tables of a run."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from nccl_insight.inputs.chunks import ChunkIndex
from nccl_insight.inputs.find import find_inputs
from nccl_insight.loading.joining import folded
from nccl_insight.loading.reading import Part
from nccl_insight.tables.run import Partial


def parts_of(folder: Path, count: int) -> list[Part]:
    for n in range(count):
        (folder / f"{n:03}.json").write_text("{}")
    rows = (pl.DataFrame({"step": [n]}, schema={"step": pl.Int32}) for n in range(count))
    files = find_inputs([str(folder)])
    return [Part(file, "kineto", ChunkIndex(), Partial({"steps": r})) for file, r in zip(files, rows, strict=True)]


def test_rows_of_neighbors_move_to_the_first_of_them(tmp_path: Path) -> None:
    found = list(folded(parts_of(tmp_path, 3)))
    assert [part.file.input_id for part in found] == [0, 1, 2]
    tables = [part.partial.tables for part in found if part.partial]
    assert tables[0]["steps"]["step"].to_list() == [0, 1, 2]
    assert [len(table) for table in tables] == [1, 0, 0]


def test_files_that_are_no_neighbors_keep_their_rows(tmp_path: Path) -> None:
    parts = parts_of(tmp_path, 3)
    found = list(folded([parts[0], parts[2]]))
    assert [part.partial.tables["steps"]["step"].to_list() for part in found if part.partial] == [[0], [2]]
    assert list(folded([])) == []


def test_of_many_files_so_many_are_put_together(tmp_path: Path) -> None:
    found = list(folded(parts_of(tmp_path, 66)))
    heights = [part.partial.tables["steps"].height for part in found if part.partial and part.partial.tables]
    assert heights == [64, 2]
