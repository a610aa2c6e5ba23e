"""Grammars of tests, put together from texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nccl_insight.language import load, syntax


def read_grammar(files: Mapping[str, str]) -> syntax.Grammar:
    """The grammar of the given files (name -> text), checked as a whole.

    Raises GrammarError: syntax outside the subset, an unknown or doubly defined name.
    """
    grammar = load._grammar(files)
    expressions: Iterable[object]
    for expressions in (grammar.fragments.values(), grammar.columns.values(), load._tables(files).values()):
        for _ in expressions:
            pass
    for message in grammar.messages.values():
        _ = message.expr, message.meaning
    return grammar
