"""Lists of words that redaction goes by (``vocabulary.toml``)."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from nccl_insight.base import toml


@cache
def _lists() -> Mapping[str, Any]:
    return toml.beside(__file__)


def listed(name: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(_lists()[name])


def kinds_of(name: str) -> dict[str, str]:
    """What each word of a table of lists stands for."""
    return {word: kind for kind, every in words_by(name).items() for word in every}


def words_by(name: str) -> Mapping[str, Sequence[str]]:
    """The words of each kind of a table of lists."""
    table: Mapping[str, Sequence[str]] = _lists()[name]
    return table
