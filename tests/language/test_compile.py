"""Rule -> regular expression, with the determinism checks of docs/grammar.md on the way."""

from __future__ import annotations

import pytest

from nccl_insight.language.compile import check
from nccl_insight.language.load import read_grammar
from tests.language.grammars import FIELDS, NOTATIONS


def problems(rule: str) -> list[str]:
    grammar = read_grammar({"fields.lark": FIELDS, "a.lark": f"one: {rule}\n"})
    return check(grammar, grammar.messages["one"])


@pytest.mark.parametrize(
    "rule",
    [
        '"rank " rank " of " nranks',
        '"failed " reason " errno " rank',
        '"comm - " kind " COMPLETE"',
        '"on " host [" rank " rank]',
        '"value " reason "."',
    ],
)
def test_accepted_shapes(rule: str) -> None:
    assert problems(rule) == []


@pytest.mark.parametrize(
    ("rule", "word"),
    [
        ('"rank " rank "0" nranks', "could swallow"),
        ('"a" rank nranks', "may start with"),
        ('"x " ("ab" | "abc") " y"', "told apart"),
        ('"x " ["1" ] rank', "told apart"),
        ('rank " " rank', "stands twice"),
        ('"a " (rank " ")*', "repeat"),
    ],
)
def test_refused_shapes(rule: str, word: str) -> None:
    assert any(word in problem for problem in problems(rule))


@pytest.mark.parametrize(
    ("rule", "word"),
    [
        ('"a " rank " b" rank_padded', "stands twice"),
        ('"a " ( "x " rank | "y " host ) " b " rank', "stands twice"),
        ('"a " ( "x " reason | "y " reason ", z " rank )', "ends before different texts"),
    ],
)
def test_one_way_through_a_rule_has_a_column_once(rule: str, word: str) -> None:
    grammar = read_grammar({"fields.lark": NOTATIONS, "a.lark": f"one: {rule}\n"})
    assert any(word in problem for problem in check(grammar, grammar.messages["one"]))
