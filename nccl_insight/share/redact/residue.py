"""What looks like an identifier in redacted text and was left: for whoever reads before sharing."""

from collections import Counter
from typing import Final

from nccl_insight.base import texts
from nccl_insight.base.data import dataclass, field
from nccl_insight.share.redact.patterns import FILE_SUFFIXES, KNOWN_DOMAINS, RE

_RE: Final = texts.compiled(__file__)

_MOST: Final = 50_000


@dataclass
class Residue:
    """Counts words that could name somebody or something.

    Such are words with an @, names of three or more labels, long hexadecimal numbers, and long mixtures of letters and
    digits. Names of the replacement, of public files and of public domains are none.
    """

    _found: Counter[str] = field(default_factory=Counter)

    def add(self, text: str) -> None:
        """Counts the words of a redacted text."""
        for word, count in Counter(_RE["word"].findall(text)).items():
            name = word.rstrip(".-+")
            if (name in self._found or len(self._found) < _MOST) and _suspicious(name):
                self._found[name] += count

    def words(self, most: int = 20) -> list[tuple[str, int]]:
        """The words with how often they occur, the most frequent first."""
        return sorted(self._found.items(), key=lambda item: (-item[1], item[0]))[:most]


def _suspicious(word: str) -> bool:
    if _RE["ours"].fullmatch(word) or RE["public_file"].fullmatch(word) or set(word) <= set("0-"):
        return False
    ending = word.rsplit(".", 1)[-1].lower()
    if ending in FILE_SUFFIXES or any(word == d or word.endswith("." + d) for d in KNOWN_DOMAINS):
        return False
    if "@" in word:
        return not word.partition("@")[2].startswith("node")
    letters = sum(c.isalpha() for c in word)
    digits = sum(c.isdigit() for c in word)
    if _RE["labels"].fullmatch(word) and letters > digits and ending.isalpha():
        return True
    mixed = min(letters, digits) >= 4 and len(word) >= 12
    return mixed and not word.startswith(("nccl", "0000"))
