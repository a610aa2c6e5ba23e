"""The pieces of a rule in the restricted grammar language (docs/grammar.md)."""

from __future__ import annotations

from nccl_insight.language.compile import outline
from nccl_insight.language.load import default_grammar
from nccl_insight.language.syntax import Message


def test_the_index_of_a_rule_is_the_same_with_and_without_parsing_it() -> None:
    grammar = default_grammar()
    unparsed = [m for m in grammar.messages.values() if m.literals is not None]
    assert len(unparsed) > 500
    for message in unparsed:
        parsed = Message(message.name, message.expr, message.origin, message.directives)
        assert outline(grammar, message) == outline(grammar, parsed), message.name
