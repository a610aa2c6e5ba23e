"""Splits shell text into words, operators and here-documents, and expands what needs no execution."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nccl_insight.advise.settings.lint import KINDS, lint_text
from nccl_insight.advise.settings.lint.words import Known, Room, expand, logical_lines, tokenize


@pytest.mark.parametrize(
    ("raw", "value", "complete"),
    [
        ('"a b"', "a b", True), ("'$X'", "$X", True), ("$X", "1", True), ("${X}y", "1y", True), ("${Z:-d}", "d", True),
        ("${X:-d}", "1", True), ("$Z", "$Z", False), ('"$(date)"', "$(date)", False), (r"a\ b", "a b", True),
        ('"${Z:-"q r"}"', "q r", True),
    ],
)  # fmt: skip
def test_expansion(raw: str, value: str, complete: bool) -> None:
    assert expand(raw, Known(Room(), [("X", "1")])) == (value, complete)


@settings(max_examples=150, deadline=None)
@given(text=st.text(alphabet=" \t\n\\'\"`$(){}<>;&|#=:-[]aNCL_X1,.", max_size=120), kind=st.sampled_from(KINDS))
def test_any_text_is_taken(text: str, kind: str) -> None:
    lint_text("x", text, kind=kind)
    lint_text("x", "export NCCL_DEBUG=" + text, kind=kind)
    lines = text.count("\n") + 1
    assert all(1 <= token.line <= lines + 1 for token in tokenize(text))


def test_words_operators_and_here_documents_with_their_lines() -> None:
    tokens = [(t.kind, t.text, t.line) for t in tokenize("a 'b c' && d # e\ncat <<E\nx $y\nE\n", 5)]
    assert tokens[:5] == [
        ("word", "a", 5),
        ("word", "'b c'", 5),
        ("op", "&&", 5),
        ("word", "d", 5),
        ("comment", "# e", 5),
    ]
    assert ("heredoc", "x $y\n", 7) in tokens


def test_a_line_goes_on_behind_a_backslash() -> None:
    assert list(logical_lines("a \\\n  b\nc\n"))[:2] == [(1, "a \\\n  b"), (3, "c")]
