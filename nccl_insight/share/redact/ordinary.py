"""Redaction by default-deny: of a text stay words that are ordinary or that the grammar knows, and figures.

What is no such word gets a name of its own (``word1``, ``word2`` ...), the same one wherever it stands. The ordinary
words (``words.txt``) are those that occur in the sources and manuals of at least three of the programs around NCCL,
without names of people and places, and their plurals.
"""

import re
from functools import cache, partial
from importlib import resources
from typing import Final

from nccl_insight.base import texts
from nccl_insight.language.load import grammar_files
from nccl_insight.share.redact import patterns
from nccl_insight.share.redact.names import Names
from nccl_insight.share.redact.patterns import listed
from nccl_insight.share.redact.said import numbered_part

_RE: Final = texts.compiled(__file__)

_CACHE: Final = 200_000
# So long may be units and versions, and a figure with its marks.
_SHORT: Final = 2
_MIXED: Final = 7
_SHORTEST_PLURAL: Final = 5
_PLURALS: Final = (("s", ""), ("es", ""), ("ies", "y"))
_NUMBERED: Final = listed("numbered")
_COUNTED: Final = _NUMBERED - listed("machines")


@cache
def _known() -> frozenset[str]:
    """The ordinary words and those of the grammar, in lower case."""
    listed = resources.files(__package__).joinpath("words.txt").read_text("ascii").split()
    spoken = (word.lower() for text in grammar_files().values() for word in _RE["letters"].findall(text))
    return frozenset({*listed, *spoken, *_NUMBERED})


@cache
def _glued() -> frozenset[str]:
    """Words of the grammar with a figure in them (``INET6``), and models of GPUs and machines in lower case."""
    return listed("models").union(*map(_RE["glued"].findall, grammar_files().values()))


@cache
def _compounds() -> frozenset[str]:
    """Words with hyphens of the grammar, in lower case."""
    found = map(patterns.RE["compound"].findall, grammar_files().values())
    return frozenset(word.lower() for words in found for word in words)


class Ordinary:
    """Replaces what is no ordinary word; ``names`` holds what replaces what, and how often which word stayed."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self.kept: set[str] = set()
        self._seen: dict[str, str] = names.cache()

    def replaced(self, text: str) -> str:
        """The text without words that nobody has to know."""
        return _RE["piece"].sub(self._piece, patterns.RE["compound"].sub(self._compound, text))

    def learned(self, text: str) -> str:
        """The text with the words replaced that were replaced before, for texts of our own."""
        words = self._names.words
        for pattern in (patterns.RE["compound"], _RE["piece"]) if words else ():
            text = pattern.sub(lambda m: words.get(m[0], m[0]), text)
        return text

    def _compound(self, match: re.Match[str]) -> str:
        found = match[0]
        *_, before, last = found.split("-")
        if last.isdigit():
            known = before.lower() in _COUNTED or numbered_part(found)
        else:
            known = found.lower() in _compounds()
        return found if known or found.partition("-")[0] in self._names.given else self._names.word(found)

    def _piece(self, match: re.Match[str]) -> str:
        found = match[0]
        new = self._seen.get(found)
        if new is None:
            if len(self._seen) > _CACHE:
                self._seen.clear()
            ordinary = self._ordinary(found)
            name = self._names.word if not found.isdecimal() else partial(self._names.identifier, "hex")
            new = self._seen[found] = found if ordinary else name(found)
            if ordinary and not found[0].isdigit() and len(self.kept) < _CACHE:
                self.kept.add(found)
        return new

    def _ordinary(self, found: str) -> bool:
        if found.isdecimal():
            return not _RE["number"].fullmatch(found)
        if found.startswith(("0x", "0X")) or found in self._names.given:
            return True
        name = _RE["last_name"].search(found)
        if name and name[0] in self._names.given:  # what is left of a line that another was written into: 80node1
            return self._ordinary(found[: name.start()])
        if not found.isascii():
            return False
        if found.isalpha():
            return _spoken(found) or _RE["mask"].fullmatch(found) is not None
        runs = _RE["runs"].findall(found)
        if len(found) <= _SHORT or (found[0].isdigit() and max(map(len, runs)) <= _SHORT and len(found) <= _MIXED):
            return True
        if (
            any(p.fullmatch(found) for p in (_RE["hex"], _RE["ours"], patterns.RE["measured"]))
            or {found, found.lower()} & _glued()
        ):
            return True
        plain = _RE["paths"].sub("", found)
        if not plain or plain.isalpha():
            return _spoken(plain)
        return _numbered(runs)


def _numbered(runs: list[str]) -> bool:
    """Whether letters and figures in turn are words that are numbered (``rank3``), with units or versions behind."""
    return runs[0].lower() in _NUMBERED and all(len(r) <= _SHORT or r.lower() in _NUMBERED for r in runs[1:])


def _spoken(word: str) -> bool:
    """Whether a word, or each hump of a camel's, is ordinary."""
    if len(word) <= _SHORT or _listed(word.lower()):
        return True
    humps = _RE["hump"].split(word)
    return len(humps) > 1 and all(len(hump) <= _SHORT or _listed(hump.lower()) for hump in humps)


def _listed(word: str) -> bool:
    """Whether a word is known, or several of what a known word names."""
    known = _known()
    return word in known or (
        len(word) >= _SHORTEST_PLURAL
        and any(word.endswith(end) and word.removesuffix(end) + one in known for end, one in _PLURALS)
    )
