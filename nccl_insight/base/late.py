"""Regular expressions that are compiled when they are first used: a command needs few of those its modules have."""

import re
from typing import Any, AnyStr, cast


class Late:
    """A pattern and what it is once somebody asked for it."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._made: tuple[Any, int] = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._made), name)
        setattr(self, name, found)  # the next time it is there, and nobody asks
        return found


def compiled(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """What :func:`re.compile` gives, when somebody asks for it. A match has the pattern itself in ``re``, not this."""
    return cast("re.Pattern[AnyStr]", Late(pattern, flags))
