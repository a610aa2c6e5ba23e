"""Tables of words, written as the words; and what places of a text hold."""

import re
from bisect import bisect_left
from functools import lru_cache


def words(text: str) -> tuple[str, ...]:
    """The words of a text, which blanks, commas and ends of lines part."""
    return tuple(text.replace(",", " ").split())


def pairs(text: str) -> dict[str, str]:
    """Words by words, each pair written ``word=other``."""
    return dict(pair.split("=", 1) for pair in text.split())


def first_group(match: re.Match[str]) -> str:
    """What the first of a pattern's groups that took part in a match holds."""
    return next(group for group in match.groups() if group is not None)


def line_at(text: str, position: int) -> int:
    """The number of the line, counted from 1, that holds a position of a text."""
    return bisect_left(_line_ends(text), position) + 1


@lru_cache(maxsize=4)
def _line_ends(text: str) -> list[int]:
    return [match.start() for match in re.finditer("\n", text)]
