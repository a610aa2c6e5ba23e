"""Reader of the ``.lark`` files."""

from __future__ import annotations

import pytest

from nccl_insight.base.errors import GrammarError
from nccl_insight.language.load import default_grammar, grammar_digest, grammar_files, read_grammar
from tests import message_samples
from tests.language.grammars import FIELDS, GRAMMAR


def test_no_sample_without_a_rule() -> None:
    assert sorted(set(message_samples.by_rule()) - set(GRAMMAR.messages)) == []


def test_samples_stand_under_the_name_of_their_grammar_file() -> None:
    for file, rules in message_samples.by_file().items():
        assert {GRAMMAR.messages[rule].origin.split(":")[0] for rule in rules} == {f"{file}.lark"}


def test_directives_at_the_head_of_a_file_hold_for_its_messages() -> None:
    head = "//! default-table: errors\n//! default-headless: yes\n\n"
    rules = 'one: "a " rank\n\n//! table: none\n//! headless: no\n//! diagnosis: x\n//! role: root\ntwo: "b " rank\n'
    grammar = read_grammar({"fields.lark": FIELDS, "a.lark": head + rules, "b.lark": 'three: "c " rank\n'})
    found = {name: (m.table, m.headless) for name, m in grammar.messages.items()}
    assert found == {"one": ("errors", True), "two": (None, False), "three": (None, False)}
    assert grammar.columns["rank"].name == "rank"


def test_a_notation_has_the_type_of_its_column() -> None:
    with pytest.raises(GrammarError, match="no column rank of type str"):
        read_grammar({"fields.lark": FIELDS + "//! column: rank\nrank_word: WORD\n", "a.lark": 'one: "a"\n'})


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("one: NOPE\n", "neither a column nor a terminal"),
        ('one: ("a"\n', "not closed"),
        ("  one\n", "not a definition"),
        ('//! shape: x\none: "a"\n', "unknown directive"),
        ('one: "a"\none: "b"\n', "already defined"),
        ('one: "a" | \n', "empty branch"),
    ],
)
def test_syntax_errors_say_where(text: str, word: str) -> None:
    with pytest.raises(GrammarError, match=word):
        read_grammar({"fields.lark": FIELDS, "a.lark": text})


@pytest.mark.parametrize(
    ("body", "literals"),
    [
        ('"Chains " rank " of " "n " nranks', ("Chains ", None, " of n ", None)),
        ('"tail " [ rank " x" ] ( "a" | "b" )', ("tail ", None, None)),
        ('"one" | "two"', None),
        ('"one"? "two"', None),
        ('"go" ( " on" )', None),
        ("rank", None),
    ],
)
def test_literals_without_parsing(body: str, literals: tuple[str | None, ...] | None) -> None:
    grammar = read_grammar({"fields.lark": FIELDS, "a.lark": f"one: {body}\n"})
    assert grammar.messages["one"].literals == literals


def test_the_packaged_grammar_reads_as_a_whole() -> None:
    whole = read_grammar(grammar_files())
    assert list(whole.messages) == list(default_grammar().messages)
    assert whole.digest == default_grammar().digest == grammar_digest()
