"""Checks of the whole grammar."""

from __future__ import annotations

import pytest

from nccl_insight.language.lint import lint
from nccl_insight.language.load import default_grammar, read_grammar
from tests.checks import NAMES

FIELDS = "NAME: /[A-Za-z0-9_]+/\nINT: /-?[0-9]+/\nTEXT: /[^\\n]+/\nerrno: INT\nfunction: NAME\nerror_text: TEXT\n"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("//! when: errno = 1 => no-such-name", "no-such-name is no diagnosis"),
        ("//! when: peer = 1 => plain-note", "does not capture"),
        ("//! when: errno = 1 => plain-note\n//! when: errno = 1 => peer-died", "never reached"),
    ],
)
def test_lint_finds_meanings_that_cannot_be(line: str, says: str) -> None:
    rule = f'//! diagnosis: plain-note\n//! role: root\n{line}\nfailed: "call " errno\n'
    problems = lint(read_grammar({"fields.lark": FIELDS, "x.lark": rule}), NAMES)
    assert [p.text for p in problems if says in p.text]


def test_lint_wants_a_meaning_of_every_failure() -> None:
    rule = '//! table: errors\nfailed: "call " errno\n'
    problems = lint(read_grammar({"fields.lark": FIELDS, "x.lark": rule}), NAMES)
    assert [p.text for p in problems] == ["a message of the table errors needs a diagnosis and a role"]


def test_the_grammar_keeps_its_rules() -> None:
    assert lint(default_grammar(), NAMES) == []
