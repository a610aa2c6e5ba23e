"""Definitions of a grammar file as they stand there: name, body and directives, nothing parsed."""

from __future__ import annotations

import pytest

from nccl_insight.base.errors import GrammarError
from nccl_insight.language.definitions import blocks, definitions

FILE = """// a comment
//! default-table: errors

//! headless: yes
//! when: a
//! when: b
first: "x " INT
  | "y"
NAME: /[a-z]+/
//! table: env
_piece: "z"
"""


def test_definitions_have_their_directives_and_what_holds_for_the_file() -> None:
    first, name, piece = definitions("f.lark", FILE)
    assert (first.name, first.body, first.where) == ("first", ' "x " INT\n  | "y"', "f.lark:7")
    assert first.directives == {"table": "errors", "headless": "yes", "when": "a\nb"}
    assert (name.name, name.directives) == ("NAME", {})  # a terminal has no table
    assert (piece.name, piece.directives) == ("_piece", {"table": "env"})


def test_blocks_that_belong_to_no_rule_say_where_they_stand() -> None:
    (block,) = blocks("f.lark", '\n\n//! help: err_x\n//! where: on the host\nx: "y"\n')
    assert (block["help"], block["place"], block["where"]) == ("err_x", "on the host", "f.lark:3")
    assert list(blocks("f.lark", '//! table: env\nx: "y"\n')) == []


@pytest.mark.parametrize("text", ["//! tabel: env\n", "x = y\n", "  indented\n"])
def test_a_line_that_is_no_definition_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(GrammarError, match=r"f\.lark:2"):
        list(definitions("f.lark", "\n" + text))
