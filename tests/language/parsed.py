"""What lark makes of a text, as the other engines tell it."""

from __future__ import annotations

from typing import NamedTuple

from nccl_insight.language.reference import Reference, text_of
from nccl_insight.language.syntax import Grammar


class Parsed(NamedTuple):
    """Captures by column, those of branches not taken left out, and whether there was more than one way."""

    captures: dict[str, str]
    ambiguous: bool


def parse(reference: Reference, grammar: Grammar, rule: str, text: str) -> Parsed | None:
    """None when lark rejects the text."""
    tree, columns = reference.tree(rule, text), grammar.columns
    if tree is None:
        return None
    nodes = (node for node in tree.iter_subtrees() if node.data in columns)
    captures = {columns[str(node.data)].column: text_of(node) for node in nodes}
    return Parsed(captures, any(True for _ in tree.find_data("_ambig")))
