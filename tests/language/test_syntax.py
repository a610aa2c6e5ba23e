"""The pieces of a rule in the restricted grammar language (docs/grammar.md)."""

from __future__ import annotations

import pytest

from nccl_insight.language.compile import outline
from nccl_insight.language.load import default_grammar
from nccl_insight.language.syntax import (
    Choice,
    Column,
    Expr,
    Grammar,
    Literal,
    Message,
    Repeat,
    Sequence,
    Terminal,
    columns_of,
    labels_of,
    sequence,
)


def test_the_index_of_a_rule_is_the_same_with_and_without_parsing_it() -> None:
    grammar = default_grammar()
    unparsed = [m for m in grammar.messages.values() if m.literals is not None]
    assert len(unparsed) > 500
    for message in unparsed:
        parsed = Message(message.name, message.expr, message.origin, message.directives)
        assert outline(grammar, message) == outline(grammar, parsed), message.name


def test_columns_come_in_the_order_in_which_they_stand() -> None:
    inner = Choice((Sequence((Literal("x "), Column("rank"))), Column("host")))
    assert list(columns_of(Sequence((Column("pid"), Repeat(inner, 0, None), Terminal("INT"))))) == [
        "pid",
        "rank",
        "host",
    ]
    assert list(columns_of(Literal("rank"))) == []


@pytest.mark.parametrize(
    ("before", "item", "labels"),
    [
        ("size ", Terminal("INT"), {"size"}), ("at size=0x", Terminal("HEX"), {"size"}),
        ("opCount : ", Terminal("INT"), {"opCount"}), ("len (", Terminal("INT"), {"len"}),
        ("size ", Column("size_bytes"), set()), ("failed with ", Terminal("INT"), set()),
        ("size ", Choice((Terminal("INT"), Literal("?"))), {"size"}), ("size, ", Terminal("INT"), set()),
    ],
)  # fmt: skip
def test_labels_are_words_in_front_of_values_that_no_column_takes(before: str, item: Expr, labels: set[str]) -> None:
    written = Sequence((Literal(before), item))
    assert labels_of(written) == labels
    assert labels_of(Choice((Literal("none"), Repeat(written, 0, 1)))) == labels


def test_a_sequence_is_flat_and_joins_texts() -> None:
    rank = Column("rank")
    assert sequence((Literal("a"), Sequence((Literal("b"), rank)), Literal("c"))) == Sequence(
        (Literal("ab"), rank, Literal("c"))
    )
    assert sequence((Literal("a"), Literal("b"))) == Literal("ab")


def test_what_directives_say_of_a_message() -> None:
    plain = Message("m", Literal("x"), "a.lark")
    assert (plain.table, plain.aliases, plain.headless, plain.last_resort, plain.constants) == (
        None,
        (),
        False,
        False,
        {},
    )
    said = {"table": "errors", "alias": "old, older,", "headless": "last", "set": "op=Send, kind = x,junk"}
    told = Message("m", Literal("x"), "a.lark", said)
    assert (told.table, told.aliases, told.headless, told.last_resort) == ("errors", ("old", "older"), True, True)
    assert told.constants == {"op": "Send", "kind": "x"}
    assert Message("m", Literal("x"), "a.lark", {"table": "none"}).table is None
    assert Grammar({}, {}, {}, {"m": told}, "", {}).renamed == {"old": "m", "older": "m"}
