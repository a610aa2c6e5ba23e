"""Work in threads beside the one that asks for it.

Where memory ends, a thread may die outside its work: before its first line, or while it tells of its failure. Python's
own pools then wait for it for good; here its death ends the wait.
"""

from __future__ import annotations

import _thread
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

# How often who waits looks whether the threads live.
_LOOK_S: Final = 0.5


class Result(Generic[R]):
    """What some work gives, made by one thread and awaited by others."""

    __slots__ = ("__weakref__", "_done", "_error", "_value", "_work")

    def __init__(self, work: Callable[[], R]) -> None:
        self._work: Callable[[], R] | None = work
        self._error: BaseException | None = None
        self._done = _thread.allocate_lock()
        self._done.acquire()

    def make(self) -> None:
        """Does the work, once; it may fail."""
        try:
            if self._work is not None:
                self._value = self._work()
        except BaseException as error:
            self._error = error
        finally:
            self._work = None
            self._done.release()

    @property
    def done(self) -> bool:
        """Whether the work has ended."""
        return self._work is None

    def get(self, alive: Callable[[], bool] = lambda: True) -> R:
        """The value when it is made. Raises what the work raised; MemoryError: who was to make it is not alive."""
        while not self._done.acquire(timeout=_LOOK_S):
            if not alive() and not self.done:
                raise MemoryError
        self._done.release()
        if self._error is not None:
            raise self._error
        return self._value


def _serve(waiting: SimpleQueue[Result[Any] | None]) -> None:
    while (result := waiting.get()) is not None:
        result.make()
        del result


class Threads:
    """So many threads at most, which begin what they are given in that order. Leaving it waits for all of it; after an
    error only for what has begun. Where no thread can be started, who asks for a result makes it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: SimpleQueue[Result[Any] | None] = SimpleQueue()
        # With each the function that it runs, which nobody else keeps: it goes when the thread does.
        self._services: list[tuple[Result[None], weakref.ref[Any]]] = []

    def begin(self, work: Callable[[], R]) -> Result[R]:
        """Gives some work to the next thread that is free."""
        result = Result(work)
        self._waiting.put(result)
        if len(self._services) < self._most:
            service = Result(partial(_serve, self._waiting))
            run = service.make
            try:
                _thread.start_new_thread(run, ())
                self._services.append((service, weakref.ref(run)))
            except RuntimeError:  # the system has no more threads
                self._most = len(self._services)
        return result

    def get(self, result: Result[R]) -> R:
        """What some work gave, or raised. Raises MemoryError: a thread died."""
        while not self._services and not result.done:
            if (first := self._waiting.get_nowait()) is not None:
                first.make()
        return result.get(lambda: all(run() is not None for _, run in self._services))

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with suppress(Empty):
            while kind is not None:
                self._waiting.get_nowait()
        for _ in self._services:
            self._waiting.put(None)
        for service, run in self._services:
            with suppress(MemoryError):
                service.get(lambda run=run: run() is not None)  # type: ignore[misc]


def in_order(work: Callable[[T], R], items: Iterable[T], most: int, ahead: int | None = None) -> Iterator[R]:
    """What some work gives for each item, in their order, done by ``most`` threads; no more than ``ahead`` items are
    taken before their result is asked for.

    Raises MemoryError: a thread died.
    """
    waiting: deque[Result[R]] = deque()
    with Threads(most) as threads:
        for item in items:
            waiting.append(threads.begin(partial(work, item)))
            if ahead is not None and len(waiting) > ahead:
                yield threads.get(waiting.popleft())
        while waiting:
            yield threads.get(waiting.popleft())
