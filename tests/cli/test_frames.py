"""Frames as files and as text."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import polars as pl
import pytest

from nccl_insight.cli.frames import show_frame, write_frames


def test_a_result_that_is_too_wide_loses_empty_columns_then_becomes_blocks() -> None:
    frame = pl.DataFrame({"rank": [0, 1], "host": ["node00", "node01"], "bus_id": [None, None], "text": ["x" * 20] * 2})
    assert show_frame(frame, "table", 80) == show_frame(frame, "table")
    slim = show_frame(frame, "table", 40)
    assert "bus_id" not in slim.splitlines()[0]
    assert "1 empty columns left out" in slim
    blocks = show_frame(frame, "table", 24)
    assert "-- row 2 " in blocks
    assert re.search(r"^host +node01$", blocks, re.M)
    assert show_frame(frame, "json") == frame.write_json() + "\n"


def test_a_piped_result_of_many_columns_loses_the_empty_ones_and_says_so() -> None:
    few, many = ({"rank": [3]} | {f"empty_{k}": [None] for k in range(count)} for count in (39, 346))
    assert "empty_38" in show_frame(pl.DataFrame(few), "table")
    assert show_frame(pl.DataFrame(many), "table") == "rank\n----\n3\n(346 empty columns left out)\n"


def test_a_text_of_a_log_cannot_move_the_cursor_of_a_result() -> None:
    assert "\x1b" not in show_frame(pl.DataFrame({"text": ["a\x1b[2Jb"]}), "table")


FORMULAS = (
    "=1+1", "+1+1", "@SUM(A1)", "-2+3+cmd|' /C calc'!A0", "-cmd", "\t=1+1", "\r=1+1", "\n=1+1", "＝1+1", "-1E5=x", '=HYPERLINK("http://x")',
)  # fmt: skip


@pytest.mark.parametrize("text", FORMULAS)
def test_a_spreadsheet_runs_nothing(text: str) -> None:
    shown = show_frame(pl.DataFrame({"value": [text], "list": [[text]]}), "csv")
    (row,) = list(csv.reader(io.StringIO(shown)))[1:]
    assert row[0] == "'" + text
    assert row[1].startswith("[")


@pytest.mark.parametrize("text", ["-5", "-0.25", "a=1", "mlx5_0:1", "", "-"])
def test_numbers_and_words_stay(text: str) -> None:
    shown = show_frame(pl.DataFrame({"value": [text], "n": [1]}), "csv")
    assert next(iter(list(csv.reader(io.StringIO(shown)))[1:]))[0] == text


@pytest.mark.parametrize("kind", ["parquet", "csv", "ndjson"])
def test_pieces_make_the_same_file(kind: str, tmp_path: Path) -> None:
    whole = pl.DataFrame({"a": range(10), "b": [None, "x"] * 5, "c": [[1, 2], None] * 5})
    assert write_frames(iter([whole]), tmp_path / "one", kind)
    assert write_frames(whole.iter_slices(3), tmp_path / "many", kind)
    if kind == "parquet":
        assert pl.read_parquet(tmp_path / "many").equals(whole)
    else:
        assert (tmp_path / "one").read_bytes() == (tmp_path / "many").read_bytes()
    assert not write_frames(iter([whole.clear()]), tmp_path / "none", kind, empty=False)
    assert not (tmp_path / "none").exists()
