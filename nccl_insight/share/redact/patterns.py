"""What names look like in text."""

from typing import Final

from nccl_insight.base import texts
from nccl_insight.share.redact.vocabulary import listed, words_by

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
