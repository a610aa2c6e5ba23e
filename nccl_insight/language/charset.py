"""Which characters a terminal may start with and may hold; the base of the determinism checks."""

import sys
from functools import cache
from typing import Any, Final

from nccl_insight.base.data import dataclass
from nccl_insight.base.errors import GrammarError

if sys.version_info >= (3, 11):
    from re import _constants as _sre
    from re import _parser as _sre_parser
else:  # pragma: no cover
    import sre_constants as _sre
    import sre_parse as _sre_parser

# Printable ASCII, tab, and one stand-in for everything beyond ASCII.
ALPHABET: Final = frozenset([*map(chr, range(32, 127)), "\t", "\u00e9"])


@dataclass(frozen=True)
class CharSets:
    """``first``: possible first characters; ``all``: every character that can occur; ``nullable``: may be empty."""

    first: frozenset[str]
    all: frozenset[str]
    nullable: bool


def _members(items: Any) -> frozenset[str]:
    chosen: set[str] = set()
    negate = False
    for op, value in items:
        if op is _sre.NEGATE:
            negate = True
        elif op is _sre.LITERAL:
            chosen.add(chr(value))
        elif op is _sre.RANGE:
            low, high = value
            chosen |= {c for c in ALPHABET if low <= ord(c) <= high}
        else:
            raise GrammarError(f"character class {op} is not portable; write the ASCII characters")
    return ALPHABET - chosen if negate else frozenset(chosen)


def _walk(tokens: Any) -> CharSets:
    first: frozenset[str] = frozenset()
    everything: frozenset[str] = frozenset()
    nullable = True
    for op, value in tokens:
        part = _one(op, value)
        if nullable:
            first |= part.first
        everything |= part.all
        nullable = nullable and part.nullable
    return CharSets(first, everything, nullable)


def _one(op: Any, value: Any) -> CharSets:
    if op is _sre.LITERAL:
        only = frozenset(chr(value))
        return CharSets(only, only, False)
    if op is _sre.NOT_LITERAL:
        rest = ALPHABET - {chr(value)}
        return CharSets(rest, rest, False)
    if op is _sre.IN:
        members = _members(value)
        return CharSets(members, members, False)
    if op is _sre.BRANCH:
        parts = [_walk(b) for b in value[1]]
        return CharSets(
            frozenset().union(*(p.first for p in parts)),
            frozenset().union(*(p.all for p in parts)),
            any(p.nullable for p in parts),
        )
    if op is _sre.MAX_REPEAT:
        least, _, item = value
        inner = _walk(item)
        return CharSets(inner.first, inner.all, inner.nullable or least == 0)
    if op is _sre.SUBPATTERN and value[0] is None:
        return _walk(value[-1])
    raise GrammarError(f"{op} is not allowed in a terminal (no anchors, look-around, lazy repeats, groups, '.')")


@cache
def charsets(pattern: str) -> CharSets:
    """Character sets of a terminal's pattern.

    Raises GrammarError: the pattern uses something that Python's and Rust's engines may read differently.
    """
    try:
        parsed = _sre_parser.parse(pattern)
    except Exception as error:
        raise GrammarError(f"/{pattern}/ is not a regular expression: {error}") from error
    return _walk(parsed)
