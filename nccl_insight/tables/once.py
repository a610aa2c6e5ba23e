"""Values that several threads may ask for and one of them makes, and work in a thread beside others."""

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from nccl_insight.base.data import dataclass
from nccl_insight.base.threads import Result, Threads

T = TypeVar("T")


@dataclass(frozen=True)
class _Value:
    made: Result[Any]
    maker: int


class Once:
    """Values by key, each made by who asks for it first; who asks while it is being made waits for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[Hashable, _Value] = {}

    def __contains__(self, key: object) -> bool:
        """Whether a value is made, or being made."""
        return key in self._values

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value, made with ``make`` if nobody asked for it before. Where making it fails, the next one tries again.

        Raises RuntimeError: the value is made from itself.
        """
        me = threading.get_ident()

        def attempt() -> T:
            try:
                return make()
            except BaseException:
                with self._lock:
                    del self._values[key]
                raise

        with self._lock:
            known = self._values.get(key)
            value = self._values[key] = known or _Value(Result(attempt), me)
        if known is None:
            value.made.make()
        elif value.maker == me and not value.made.done:
            raise RuntimeError(f"{key} is made from itself")
        result: T = value.made.get()
        return result


@contextmanager
def beside(work: Callable[[], object] | None) -> Iterator[None]:
    """While it lasts, another thread does some work, and the end waits for it. Who needs its result asks for it again,
    and meets its errors."""
    if work is None:
        yield
        return
    with Threads(1) as threads:
        threads.begin(work)
        yield
