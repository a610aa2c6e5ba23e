"""What a text can start with where an expression of the grammar stands: the ground of the determinism checks."""

from __future__ import annotations

from nccl_insight.language.starts import Chars, End, Lit, Starts, leaves, may_start, show, told_apart
from nccl_insight.language.syntax import (
    Choice,
    Column,
    ColumnDef,
    Grammar,
    Literal,
    Repeat,
    Sequence,
    Terminal,
    TerminalDef,
)

INT = Terminal("INT")
GRAMMAR = Grammar(
    {"INT": TerminalDef("INT", "[0-9]+", "int", "f")},
    {"rank": ColumnDef("rank", Choice((INT, Literal("none"))), "int", "f", "rank")},
    {}, {}, "", {},
)  # fmt: skip
DIGITS = frozenset("0123456789")


def test_texts_that_may_begin_alike_are_not_told_apart() -> None:
    assert told_apart(Lit("ab"), Lit("ac"))
    assert not told_apart(Lit("ab"), Lit("a"))
    assert told_apart(Lit("a1"), Chars(DIGITS))
    assert not told_apart(Chars(DIGITS), Lit("1a"))
    assert told_apart(Chars(DIGITS), Chars(frozenset("ab")))
    assert not told_apart(Chars(DIGITS), Chars(frozenset("a9")))
    assert told_apart(End(), Lit("a"))
    assert not told_apart(End(), End())


def test_each_way_to_begin_is_found() -> None:
    starts = Starts(GRAMMAR)
    assert starts.starts((Literal("a"), INT)) == [Lit("a")]
    assert starts.starts((Repeat(Literal("a"), 0, 1), INT)) == [Lit("a"), Chars(DIGITS)]
    assert starts.starts((Repeat(Literal("a"), 0, None),)) == [Lit("a"), End()]
    assert starts.starts((Repeat(Literal("a"), 1, None), INT)) == [Lit("a")]
    assert starts.openings((Column("rank"), Literal("x"))) == [
        (Chars(DIGITS), (Literal("x"),)), (Lit("none"), (Literal("x"),)),
    ]  # fmt: skip


def test_characters_of_a_value() -> None:
    sets = Starts(GRAMMAR).sets(Column("rank"))
    assert (sets.first, sets.all) == (DIGITS | {"n"}, DIGITS | set("noe"))
    assert may_start(Lit("7"), DIGITS)
    assert not may_start(Lit("a7"), DIGITS)
    assert not may_start(End(), DIGITS)
    assert [show(start) for start in (Lit("a"), Chars(DIGITS), End())] == ["'a'", "a value", "the end"]
    assert leaves(Sequence((Literal("a"), Repeat(Choice((INT, Literal("b"))), 0, 1)))) == [
        Literal("a"), INT, Literal("b"),
    ]  # fmt: skip
