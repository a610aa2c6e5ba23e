"""A run: the tables of everything that was read, and a way back to the text of a line."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import polars as pl
import pytest

from nccl_insight.base.errors import UsageError
from nccl_insight.tables.run import Asked, Run, Tables, build_run, fact, near, picked
from tests.by_hand import run


def test_a_table_of_a_run_has_all_its_columns() -> None:
    one = run(errors=[{"input_id": 0, "line": 4, "text": "x"}])
    assert one.table("errors").height == 1
    assert one.table("errors")["diagnosis"].to_list() == [None]
    assert one.table("ranks").is_empty()
    assert (one.has("errors"), one.has("ranks"), one.height("errors")) == (True, False, 1)
    assert one.table("errors", "text", "line").columns == ["text", "line"]


def test_a_name_that_no_table_has_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean errors"):
        run().table("errrors")
    assert near("rnks", ["ranks", "env"]) == "; did you mean ranks?"
    assert near("zzz", ["ranks"]) == ""


def test_a_fact_is_made_once_for_each_of_its_arguments() -> None:
    made: list[int] = []

    @fact
    def times(run: Run, n: int) -> int:
        made.append(n)
        return n * run.height("errors")

    one = run(errors=[{"line": 1}, {"line": 2}])
    threads = [threading.Thread(target=times, args=(one, 3)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (times(one, 3), times(one, 4)) == (6, 8)
    assert made == [3, 4]
    assert times(run(), 3) == 0


def test_what_the_user_says_of_a_run() -> None:
    asked = Asked(thresholds={"slow-rank": {"ratio": 2.0}})
    assert (asked.threshold("slow-rank", "ratio", 1.5), asked.threshold("other", "ratio", 1.5)) == (2.0, 1.5)
    assert (asked.shared("ratio", 9.0), asked.shared("share", 9.0)) == (2.0, 9.0)


def test_columns_come_in_the_order_in_which_they_are_asked_for() -> None:
    found = picked("errors", pl.DataFrame({"line": [1], "text": ["x"]}), ["text", "host", "line"])
    assert found.rows() == [("x", None, 1)]
    assert found.schema["line"] == pl.UInt64
    assert build_run({}).tables().is_empty()


class _Calls:
    """A table of two lines, said to be one that is put together from many while its parts are looked at."""

    height = 1_000_000
    streams = True

    def frames(self, columns: Sequence[str] = ()) -> Iterator[pl.DataFrame]:
        return iter([pl.DataFrame({"line": [n]}, schema={"line": pl.UInt64}) for n in (1, 2)])

    last = frames


def test_a_large_table_comes_in_all_its_pieces() -> None:
    many = Run(Tables({}, {"calls": _Calls()}))
    assert [frame["line"].to_list() for frame in many.pieces("calls", "line")] == [[1], [2]]
    assert [frame["line"].to_list() for frame in many.pieces("calls")] == [[1], [2]]
