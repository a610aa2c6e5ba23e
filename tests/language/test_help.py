"""The help that a message brings itself."""

from __future__ import annotations

import pytest

from nccl_insight.base.errors import GrammarError
from nccl_insight.language.help import enumerations, filled, help_blocks
from nccl_insight.language.lint import lint
from nccl_insight.language.load import default_grammar, read_grammar

FIELDS = "INT: /-?[0-9]+/\nNAME: /[a-z]+/\nerrno: INT\nkind: NAME\n"


def test_values_are_filled_in_and_numbers_said_in_words() -> None:
    enums = {"errno": {"110": "ETIMEDOUT"}}
    values = {"errno": 110, "host": "gpu01", "empty": ""}
    assert filled("got {errno} ({errno:raw})", values, enums) == "got ETIMEDOUT (110)"
    assert filled("failed[[ on {host}]][[ port {port}]]", values, enums) == "failed on gpu01"
    assert filled("to [[{port}||a port]] of [[{host}||a host]]", values, enums) == "to a port of gpu01"
    assert filled("needs {port}", values, enums) == ""
    assert filled("needs {empty}", values, enums) == ""
    assert filled("{errno}", {"errno": 5}, enums) == "5"


def test_blocks_and_enumerations_are_read_in_order() -> None:
    text = (
        "//! enum: errno, kind\n//! value: 1 = one\n\n"
        "//! help: late\n//! for: failed\n//! when: errno = 110\n//! when: kind = slow\n//! where: on the host\n"
        "//! check: ls\n"
    )
    (block,) = help_blocks({"help.lark": text})
    assert (block.names, len(block.cases)) == (("failed",), 2)
    assert (block.help.check, block.help.where, block.help.says) == ("ls", "on the host", "")
    assert enumerations({"help.lark": text}) == {"errno": {"1": "one"}, "kind": {"1": "one"}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("//! help: late\n//! says: x\n", "needs `for:`"),
        ("//! help: late\n//! for: failed\n", "one of says"),
        ("//! help: late\n//! for: failed\n//! says: x\n//! role: root\n", "has no role"),
    ],
)
def test_a_block_that_cannot_be_used_is_refused(text: str, said: str) -> None:
    with pytest.raises(GrammarError, match=r"help\.lark:1: .*" + said):
        list(help_blocks({"help.lark": text}))


def test_lint_names_the_nearest_column_and_message() -> None:
    rule = '//! diagnosis: x\n//! role: root\n//! says: it was {ernno}\nfailed: "failed " errno " " kind\n'
    blocks = "//! help: late\n//! for: faild\n//! says: {knd}\n\n"
    found = lint(read_grammar({"fields.lark": FIELDS, "help.lark": blocks, "x.lark": rule}), {"x"})
    said = "\n".join(map(str, found))
    assert "{ernno}, which the message does not capture; did you mean errno?" in said
    assert "faild is no message and no diagnosis; did you mean failed?" in said
    assert "knd is no column; did you mean kind?" in said


@pytest.mark.parametrize(
    ("front", "case", "hidden"),
    [
        ("", "errno = 110", True),
        ("errno = 110|111", "errno = 110", True),
        ("errno = 110", "errno = 110|111", False),
        ("kind ~ low", "kind = slow", True),
        ("kind ~ low", "kind ~ slower & errno = 1", True),
        ("kind ~ low & errno = 2", "kind ~ slower", False),
        ("kind !~ low", "kind !~ low | fast", True),
        ("kind !~ low | fast", "kind !~ low", False),
        ("kind ~ slow", "kind ~ low", False),
    ],
)
def test_lint_names_help_that_can_never_speak(front: str, case: str, hidden: bool) -> None:
    rule = '//! diagnosis: x\n//! role: root\nfailed: "failed " errno " " kind\n'
    when = f"//! when: {front}\n" if front else ""
    blocks = (
        f"//! help: wide\n//! for: failed\n{when}//! says: it failed\n\n"
        f"//! help: close\n//! for: failed\n//! when: {case}\n//! says: it failed so\n\n"
    )
    found = lint(read_grammar({"fields.lark": FIELDS, "help.lark": blocks, "x.lark": rule}), {"x"})
    assert ["close" in str(p) for p in found] == [True] * hidden
    # Help in front whose own words lack a value leaves room for what stands behind it.
    unsure = blocks.replace("it failed\n", "{host} failed\n")
    assert not lint(read_grammar({"fields.lark": FIELDS, "help.lark": unsure, "x.lark": rule}), {"x"})


def test_no_two_blocks_of_help_have_one_name() -> None:
    names = [b.help.name for b in help_blocks(default_grammar().sources)]
    assert len(names) == len(set(names))


def test_every_help_of_the_grammar_is_one_line_without_a_full_stop() -> None:
    grammar = default_grammar()
    own = [m.directives.get("says", "") for m in grammar.messages.values()]
    blocks = [b.help.says for b in help_blocks(grammar.sources)]
    for says in filter(None, (*own, *blocks)):
        assert not says.endswith("."), says
        assert len(says) <= 140, says
