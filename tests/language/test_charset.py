"""Characters of terminals: the base of what decides that no two rules can read one line."""

from __future__ import annotations

import pytest

from nccl_insight.base.errors import GrammarError
from nccl_insight.language.charset import ALPHABET, charsets


@pytest.mark.parametrize(
    ("pattern", "first", "every", "nullable"),
    [
        ("abc", "a", "abc", False),
        ("a?bc", "ab", "abc", False),
        ("[0-3]+", "0123", "0123", False),
        ("(?:on|off)", "o", "onf", False),
        ("x*", "x", "x", True),
        ("(?:a|b*)c", "abc", "abc", False),
    ],
)
def test_first_and_all_characters(pattern: str, first: str, every: str, nullable: bool) -> None:
    found = charsets(pattern)
    assert (found.first, found.all, found.nullable) == (frozenset(first), frozenset(every), nullable)


def test_what_is_not_in_a_set_is_the_rest_of_the_alphabet() -> None:
    assert charsets("[^,]").first == ALPHABET - {","}
    assert charsets("[^a-z ]+").all == ALPHABET - frozenset("abcdefghijklmnopqrstuvwxyz ")
    assert "é" in charsets("[^a]").all


@pytest.mark.parametrize("pattern", [r"\d+", "a.c", "^a", r"a\b", "a+?", "(a)", "(?=a)b", "[a"])
def test_what_engines_may_read_differently_is_refused(pattern: str) -> None:
    with pytest.raises(GrammarError):
        charsets(pattern)
