"""Values that several threads ask for are made once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from nccl_insight.tables.once import Once


def test_who_asks_while_a_value_is_made_waits_for_it() -> None:
    once, begun, go_on = Once(), threading.Event(), threading.Event()
    made: list[int] = []

    def make() -> int:
        begun.set()
        assert go_on.wait(30)
        made.append(1)
        return 7

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(once.get, "a", make)
        assert begun.wait(30)
        assert "a" in once
        second = pool.submit(once.get, "a", make)
        go_on.set()
        assert (first.result(30), second.result(30)) == (7, 7)
    assert made == [1]
    assert once.get("b", lambda: 8) == 8


def test_a_value_that_failed_is_made_again() -> None:
    once = Once()
    with pytest.raises(ZeroDivisionError):
        once.get("a", lambda: 1 // 0)
    assert "a" not in once
    assert once.get("a", lambda: 3) == 3


def test_a_value_may_need_others_but_not_itself() -> None:
    once = Once()
    assert once.get("a", lambda: once.get("b", lambda: 2) + 1) == 3
    with pytest.raises(RuntimeError, match="c is made from itself"):
        once.get("c", lambda: once.get("c", lambda: 1))
