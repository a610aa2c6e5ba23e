"""Rows of tables: the columns say what a word names."""

from __future__ import annotations

import pytest

from nccl_insight.share.redact.rows import names


def test_the_head_of_a_table_says_what_stands_below() -> None:
    lines = [
        "USER       PID  JOBNAME    HOST",
        "marlowe    41   otter-run  tern-4",
        "",
        "kestrel    42   late       tern-5",
    ]
    assert set(names(lines)) == {("user", "marlowe"), ("job", "otter-run"), ("host", "tern-4")}


def test_cells_between_bars() -> None:
    lines = ["User|JobName|Elapsed", "marlowe|otter run|00:10:00", "root|fennel|00:11:00"]
    assert set(names(lines)) == {("user", "marlowe"), ("job", "fennel")}  # root is on every machine


def test_a_row_of_sacct_without_its_head_is_told_by_its_state() -> None:
    assert list(names(["4711|otter-run|COMPLETED|0:0"])) == [("job", "otter-run")]
    assert list(names(["4711|otter-run|blue|0:0"])) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("-rw-r--r-- 1 marlowe petrels 4096 May  4 14:20 run.log", {("user", "marlowe"), ("job", "petrels")}),
        ("marlowe   4242  0.0  0.1 125000 9000 ?  Ssl  10:00  0:01 python train.py", {("user", "marlowe")}),
        ("-rw-r--r-- 1 root root 4096 May  4 14:20 run.log", set()),
    ],
)
def test_rows_that_are_known_without_a_head(line: str, found: set[tuple[str, str]]) -> None:
    assert set(names([line])) == found
