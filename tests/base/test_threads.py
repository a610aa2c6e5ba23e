"""Work in threads: in order, bounded, and no wait for a thread that is gone."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import Any

import pytest

from nccl_insight.base.threads import Threads, in_order


def _stillborn(function: Callable[..., object], arguments: tuple[Any, ...]) -> int:
    """Starts a thread that ends before the first line of its function, as where no memory is left for a frame."""
    return _start(lambda held: None, (function,))


_start = _thread.start_new_thread


def _refuse(function: Callable[..., object], arguments: tuple[Any, ...]) -> int:
    raise RuntimeError("can't start new thread")


def test_results_come_in_the_order_of_the_items() -> None:
    second = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            assert second.wait(60)
        elif item == 1:
            second.set()
        return item * item

    assert list(in_order(work, range(9), 2)) == [0, 1, 4, 9, 16, 25, 36, 49, 64]


def test_no_more_items_are_taken_than_asked_for() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in count():
            taken.append(item)
            yield item

    results = in_order(lambda item: -item, items(), 2, 2)
    assert list(islice(results, 3)) == [0, -1, -2]
    assert taken == [0, 1, 2, 3, 4]
    results.close()  # type: ignore[attr-defined]


def test_what_the_work_raises_is_raised_where_its_result_is_asked_for() -> None:
    results = in_order(lambda item: 6 // item, [3, 0, 1], 2)
    assert next(results) == 2
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_leaving_waits_for_what_was_begun() -> None:
    made: list[int] = []
    with Threads(1) as threads:
        for number in range(20):
            threads.begin(lambda number=number: made.append(number))  # type: ignore[misc]
    assert made == list(range(20))


def test_after_an_error_nothing_more_begins() -> None:
    begun, go_on, made = threading.Event(), threading.Event(), list[int]()

    def first() -> None:
        begun.set()
        assert go_on.wait(60)
        made.append(1)

    def fail() -> None:
        with Threads(1) as threads:
            threads.begin(first)
            threads.begin(lambda: made.append(2))
            assert begun.wait(60)
            threading.Timer(0.1, go_on.set).start()
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert made == [1]


def test_a_thread_that_dies_outside_its_work_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_thread, "start_new_thread", _stillborn)
    with pytest.raises(MemoryError):
        list(in_order(str, range(5), 2))
    with Threads(1) as threads:
        threads.begin(list)


def test_where_no_thread_can_be_started_who_asks_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_thread, "start_new_thread", _refuse)
    assert list(in_order(str, range(5), 2)) == ["0", "1", "2", "3", "4"]
