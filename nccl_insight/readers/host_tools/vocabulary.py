"""What tools call their values, and the facts that these are (``vocabulary.toml``)."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from nccl_insight.base import toml


@cache
def _data() -> Mapping[str, Any]:
    return toml.beside(__file__)


def table(name: str) -> Mapping[str, str]:
    """The fact of each key."""
    facts: Mapping[str, str] = _data()[name]
    return facts


def words(name: str) -> Sequence[str]:
    """A list of keys."""
    keys: Sequence[str] = _data()[name]
    return keys


@cache
def units(name: str) -> Mapping[str, tuple[str, str | None]]:
    """The fact of each key and its unit."""
    return {key: (row[0], row[1] if len(row) > 1 else None) for key, row in _data()[name].items()}


@cache
def patterns(name: str) -> tuple[tuple[re.Pattern[str], str, str | None], ...]:
    """Patterns of the ends of paths, each with its fact and its unit."""
    return tuple((re.compile(f"(?:{p})$"), fact, unit[0] if unit else None) for p, fact, *unit in _data()[name])
