"""What names look like in text, and the lists of words that redaction goes by (``patterns.toml``)."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from nccl_insight.base import texts, toml


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


COMMON: Final = listed("common")

SYSTEM_ROOTS: Final = listed("system_roots")
KNOWN_DOMAINS: Final = listed("known_domains")
FILE_SUFFIXES: Final = listed("file_suffixes")
#: By their names in the text beside this module.
RE: Final = texts.compiled(__file__)

# Stands for numbers that are masked, see shapes.
MASK: Final = "\x01"
# Words in lower case, one of which is in every match: looking for them is much faster than trying the pattern. They are
# in the line where the match begins. "head" has none.
HINTS: Final = words_by("hints")
PUBLIC_OWNERS: Final = listed("public_owners")
BUCKETS: Final = listed("buckets")
PUBLIC_OPT: Final = listed("public_opt")


def may_match(kind: str, text: str) -> bool:
    """Whether a text holds one of the words that the patterns of a kind need."""
    words = HINTS.get(kind)
    if words is None:
        return True
    folded = text.lower()
    return any(word in folded for word in words) or (kind == "place" and ("[" in text or ": " in text))
