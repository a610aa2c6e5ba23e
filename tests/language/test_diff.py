"""`grammar diff`: what a source tree prints and reads, and what of it is not known."""

from __future__ import annotations

from pathlib import Path

import pytest

from nccl_insight.language.catalog import default_catalog
from nccl_insight.language.diff import known, render, show, unknown_calls
from nccl_insight.language.load import grammar_files, read_grammar
from nccl_insight.language.sources import LogCall, read_tree
from tests.cli import run_cli
from tests.source_trees import tree_at


def test_only_what_is_new_is_listed(tmp_path: Path) -> None:
    found = unknown_calls(default_catalog(), read_tree(tree_at(tmp_path)))
    assert [item.call.format for item in found] == [
        'Checked %d see "here"',
        "Fresh trouble at %s:%d (%s)",
        "Fresh value 0x%lx of %s, share %g%%",
        "Either fresh",
        "Or fresh too %d",
    ]


def test_skeletons_are_rules(tmp_path: Path) -> None:
    text, count = show(default_catalog(), read_tree(tree_at(tmp_path)), skeletons=True)
    assert count == 5
    text = text.replace("diagnosis: ?", "diagnosis: nccl-internal-error").replace("role: ?", "role: root")
    grammar = read_grammar({**grammar_files(), "zz_new.lark": text})
    new = [m for m in grammar.messages.values() if m.origin.startswith("zz_new.lark")]
    assert len(new) == 5
    assert {m.directives["versions"] for m in new} == {"2.40"}


def test_values_come_from_the_names_of_arguments() -> None:
    call = LogCall("a.cc", 1, "f", "INFO", "rank %d %s %-6s|%5.1f|%p", ("rank", "ncclAlgoStr[a]", "x", "t", "p"))
    assert render(call) == "rank 3 RING word  |  1.5|0x7f3a5c000b60"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Using network %s", True),
        ("NET/IB : Got async event : %s", True),
        ("%s", True),
        ("%s:%d", True),
        ("Using nothing of the kind %s", False),
    ],
)
def test_strings_may_stand_for_anything(text: str, expected: bool) -> None:
    assert known(default_catalog(), LogCall("a.cc", 1, "f", "INFO", text, ())) is expected


def test_command(tmp_path: Path) -> None:
    done = run_cli("grammar", "diff", str(tree_at(tmp_path)))
    assert done.returncode == 1
    assert "Fresh trouble at" in done.stdout
    assert "NCCL_BRAND_NEW_THING = 3" in done.stdout
    assert "6 logging calls, 5 not known; 3 settings, 2 not known" in done.stderr
