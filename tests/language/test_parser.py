"""Parser of the bodies of definitions: the subset of lark's syntax that docs/grammar.md allows."""

from __future__ import annotations

import pytest

from nccl_insight.base.errors import GrammarError
from nccl_insight.language.definitions import Definition
from nccl_insight.language.parser import Parser, expanded, outer_literals, tokens_of
from nccl_insight.language.syntax import Choice, Column, Expr, Literal, Repeat, Sequence, Terminal


def definition(body: str) -> Definition:
    return Definition("rule", body, {}, "f.lark:1")


def parse(body: str) -> Expr:
    return Parser(definition(body), {"rank"}, {"INT"}).parse()


def test_what_the_signs_of_a_body_mean() -> None:
    assert parse('"a " rank // why') == Sequence((Literal("a "), Column("rank")))
    assert parse('"a" | INT') == Choice((Literal("a"), Terminal("INT")))
    assert parse('["a"]') == Repeat(Literal("a"), 0, 1) == parse('"a"?')
    assert parse("INT+") == Repeat(Terminal("INT"), 1, None)
    assert parse("(INT | rank)*") == Repeat(Choice((Terminal("INT"), Column("rank"))), 0, None)
    assert parse(r'"a\"" "b"') == Literal('a"b')


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('("a"', "not closed"), ('"a" |', "empty branch"), ("host", "neither a column nor a terminal"),
        ("* INT", "unexpected"), ('"a")', "unexpected"), ("%", "cannot read"),
    ],
)  # fmt: skip
def test_what_is_no_expression_is_refused(body: str, said: str) -> None:
    with pytest.raises(GrammarError, match=f"f.lark:1.*{said}"):
        parse(body)


@pytest.mark.parametrize(
    ("body", "items"),
    [
        ('"a " "b" rank "c"', ("a b", None, "c")), ('"a" ["b"] INT', ("a", None, None)), ('"a" | "b"', None),
        ('rank "a"', None), ('"a" _piece', None), ('"a" ("b" | "c") "d"', ("a", None, "d")), ('"a" ("b")', None),
        ('"a" "b"? "c"', ("a", None, "c")),
    ],
)  # fmt: skip
def test_literals_are_told_without_parsing(body: str, items: tuple[str | None, ...] | None) -> None:
    assert outer_literals(tokens_of(definition(body))) == items


def test_shared_pieces_are_put_in_their_place() -> None:
    pieces: dict[str, Expr] = {"_piece": Sequence((Literal("b"), Column("rank")))}
    assert expanded(Sequence((Literal("a"), Column("_piece"))), pieces, "f") == Sequence(
        (Literal("ab"), Column("rank"))
    )
    assert expanded(Repeat(Column("_piece"), 0, 1), pieces, "f") == Repeat(pieces["_piece"], 0, 1)
    with pytest.raises(GrammarError, match="_none"):
        expanded(Column("_none"), pieces, "f")
