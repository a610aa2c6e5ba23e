"""Things that are made when somebody asks for them, above all regular expressions: a command needs few of those that
its modules have. What Python's compiler makes of them is kept for the next start."""

import atexit
import importlib
import re
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, AnyStr, Final, TypeVar, cast

from nccl_insight.base import kept

# So many patterns are kept, and no process adds more: one that goes through a whole grammar is no start of a command.
_KEPT_MOST: Final = 2_000
_ADDED_MOST: Final = 500
_NAME: Final = "patterns"
_T = TypeVar("_T")


class Late:
    """A pattern and what it is once somebody asked for it."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._made: tuple[Any, int] = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        found = getattr(made(*self._made), name)
        setattr(self, name, found)  # the next time it is there, and nobody asks
        return found


class OnDemand(Mapping[str, _T]):
    """Things by name, each made when it is first asked for."""

    def __init__(self, names: Iterable[str], make: Callable[[str], _T]) -> None:
        self._made: dict[str, _T | None] = dict.fromkeys(names)
        self._make = make

    def __getitem__(self, name: str) -> _T:
        made = self._made[name]
        if made is None:
            made = self._made[name] = self._make(name)
        return made

    def __contains__(self, name: object) -> bool:
        return name in self._made

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def compiled(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """What :func:`re.compile` gives, when somebody asks for it. A match has the pattern itself in ``re``, not this."""
    return cast("re.Pattern[AnyStr]", Late(pattern, flags))


@cache
def known() -> dict[tuple[Any, int], Any]:
    """What the compiler made of patterns with flags, in this process and those before."""
    codes: dict[tuple[Any, int], Any] = kept.read(_NAME, sys.version) or {}
    atexit.register(keep, codes, len(codes))
    return codes


def keep(codes: dict[tuple[Any, int], Any], before: int) -> None:
    """Keeps them for the next start; ``before``: how many this process found."""
    if 0 < len(codes) - before <= _ADDED_MOST and len(codes) <= _KEPT_MOST:
        kept.write(_NAME, sys.version, codes)


@lru_cache(maxsize=8192)
def made(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """What :func:`re.compile` gives, at once where an earlier start has compiled it."""
    codes, given = known(), (pattern, int(flags))
    try:
        compiler = importlib.import_module("re._compiler")
        if given not in codes:
            parsed = compiler._parser.parse(*given)
            state, code = parsed.state, array("I", compiler._code(parsed, given[1])).tobytes()
            names = {number: name for name, number in state.groupdict.items()}
            by_number = tuple(map(names.get, range(state.groups)))
            codes[given] = given[1] | state.flags, code, state.groups - 1, state.groupdict, by_number
        whole, packed, *groups = codes[given]
        return cast("re.Pattern[AnyStr]", compiler._sre.compile(pattern, whole, array("I", packed).tolist(), *groups))
    except (ImportError, AttributeError, TypeError, ValueError, RuntimeError):  # another Python
        return re.compile(pattern, flags)
