"""Reads ``columns.txt``, the one place where tables and their columns are declared."""

from __future__ import annotations

import re

import polars as pl

from nccl_insight.tables import declared

UNIT = re.compile(r"\b(ns|us|ms|seconds?|bytes?|GB/s|Gbit/s|percent|1-based|index)\b")


def test_every_column_says_what_it_means() -> None:
    said = declared.sentences(declared.declaration())
    poor = [
        f"{table}.{column}: {sentence!r}"
        for table, columns in said.items()
        for column, sentence in columns.items()
        if (len(sentence.split()) < 6 and not UNIT.search(sentence)) or "|" in sentence or "{" in sentence
    ]
    assert not poor, (
        "write a sentence on what it is, its unit and when it is null, behind the column's type in "
        f"nccl_insight/tables/columns.txt: {poor}"
    )
    odd = [t.name for t in declared.tables(declared.declaration()) if not t.row or len(t.about.splitlines()) != 1]
    assert odd == ["shared"], (
        "in nccl_insight/tables/columns.txt write what a row is behind the table's name, what the table is in the one "
        "line below, and a type behind the name of each column"
    )
    assert len({s for columns in said.values() for s in columns.values()}) > 0.8 * sum(map(len, said.values()))


def test_a_sentence_is_shared_or_a_table_s_own() -> None:
    text = """# shared
rank | i32 | Rank that the {row} belongs to.
op | enum{AllReduce, Send} | Operation of the {row}.

# calls: call
Calls of a job.
rank | i32
op | op
-- captured
task | list[i64] | Tasks in the queue.
"""
    assert declared.sentences(text) == {
        "calls": {
            "rank": "Rank that the call belongs to.",
            "op": "Operation of the call.",
            "task": "Tasks in the queue.",
        }
    }
    shared, calls = declared.tables(text)
    types = [declared.data_type(c.type, shared.columns) for c in calls.columns.values()]
    assert types == [pl.Int32(), pl.Enum(["AllReduce", "Send"]), pl.List(pl.Int64())]
    assert [declared.type_name(t) for t in types] == ["i32", "enum{AllReduce, Send}", "list[i64]"]
    assert [c.block for c in calls.columns.values()] == ["contract", "contract", "captured"]


def test_columns_of_a_frame_are_written_as_their_names_and_types() -> None:
    columns = declared.frame("rank i32, host str,\n    ranks list[i64]")
    assert columns == {"rank": pl.Int32(), "host": pl.String(), "ranks": pl.List(pl.Int64())}
    assert list(columns) == ["rank", "host", "ranks"]
