"""What is kept of a chunk: typed rows without their text, and warnings with theirs."""

from __future__ import annotations

import polars as pl

from nccl_insight.language.syntax import Literal, Message
from nccl_insight.readers.nccl_log.keep import fold, processes_of, slim

HEAD = ("input_id", "_level", "_host", "_pid", "_tid", "_dev", "_source", "_body")


def warnings_of(*rows: tuple[str | None, str, int, str]) -> pl.DataFrame:
    """Rows of (host, text, line, tag in front of the line)."""
    told = [(0, "WARN", host, 7, 8, 0, None, text, line, tag) for host, text, line, tag in rows]
    schema = dict.fromkeys((*HEAD, "_line", "_launcher"), pl.String)
    schema |= dict.fromkeys(("input_id", "_pid", "_tid", "_dev", "_line"), pl.Int64)
    return pl.DataFrame(told, schema=schema, orient="row")


def test_what_one_thread_says_again_word_for_word_is_one_row() -> None:
    found = fold(warnings_of(("a", "x", 1, ""), ("b", "x", 2, ""), ("a", "x", 3, ""), ("a", "y", 4, "")))
    assert found.select("_host", "_body", "_line", "repeats").rows() == [
        ("a", "x", 1, 2), ("b", "x", 2, 1), ("a", "y", 4, 1),
    ]  # fmt: skip
    again = fold(pl.concat([found, found]))
    assert again["repeats"].to_list() == [4, 2, 2]


def test_lines_without_a_head_are_of_one_writer_where_their_tags_agree_but_for_the_time() -> None:
    tags = ("[rank0] 10:00:01", "[rank0] 10:00:02", "[rank1] 10:00:02")
    found = fold(warnings_of(*((None, "x", n, tag) for n, tag in enumerate(tags))))
    assert found.select("_line", "repeats").rows() == [(0, 2), (2, 1)]


def test_processes_are_counted_in_the_order_in_which_they_come() -> None:
    heads = pl.DataFrame(
        {
            "input_id": [0, 0, 0, 1], "_host": ["b", "a", "b", "b"], "_pid": [1, 2, 1, 1], "_line": [5, 2, 3, 1],
            "_lines": [1, 4, 2, 9], "_launcher_rank": [None, None, 3, None],
        }
    )  # fmt: skip
    assert processes_of(heads).select("input_id", "_host", "_line", "_lines", "_launcher_rank").rows() == [
        (0, "a", 2, 4, None), (0, "b", 3, 3, 3), (1, "b", 1, 9, None),
    ]  # fmt: skip


def test_rows_are_kept_without_their_text() -> None:
    rows = pl.DataFrame({"_body": ["P2P via NET/IB"], "_more": [None], "_level": ["INFO"], "rank": [1]})
    made = slim(Message("m", Literal("x"), "f", {"table": "connections"}), rows)
    assert made.to_dicts() == [{"rank": 1, "_via": "NET/IB"}]
    assert slim(Message("m", Literal("x"), "f", {"table": "env"}), rows).columns == ["rank"]
    assert slim(Message("m", Literal("x"), "f", {"table": "env", "normalise": "y"}), rows)["_length"].to_list() == [14]
