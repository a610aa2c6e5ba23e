"""Rows of tables from rows of messages; positions that order the lines of a run."""

from __future__ import annotations

import polars as pl

from nccl_insight.loading.assemble.base import POSITION, column, finish, stack


def test_frames_are_put_below_each_other_with_nulls_for_what_one_lacks() -> None:
    one, other = pl.DataFrame({"a": [1], "b": ["x"]}), pl.DataFrame({"a": [2]})
    assert stack([one, other]).rows() == [(1, "x"), (2, None)]
    assert stack([one, one]).height == 2
    assert stack([one]) is one


def test_positions_order_lines_within_inputs() -> None:
    frame = pl.DataFrame({"input_id": [1, 0, 0, 0], "_line": [1, 9, 9, 10], "_sub": [0, 1, 0, 0]})
    at = (
        frame.with_columns(pl.col("_line").cast(pl.UInt64), pl.col("_sub").cast(pl.UInt64)).select(POSITION).to_series()
    )
    assert at.arg_sort().to_list() == [2, 1, 3, 0]


def test_columns_of_the_head_get_their_public_names() -> None:
    frame = pl.DataFrame({"_line": [3], "_host": ["a"], "host": ["b"], "_pos": [7], "rank": [1], "_tid": [5]})
    assert finish(frame).to_dicts() == [{"line": 3, "host": "b", "rank": 1}]
    assert finish(frame, {"_tid": "tid"}).columns == ["line", "host", "rank", "tid"]


def test_a_column_that_no_message_gave_is_null() -> None:
    frame = pl.DataFrame({"a": ["7", "x"]})
    assert frame.select(column(frame, "a", pl.Int64))["a"].to_list() == [7, None]
    assert frame.select(column(frame, "b", pl.Int64), "a")["b"].to_list() == [None, None]
