"""Every sentence that users read: no phrase of the word list, and nothing that a program left in it.

Texts come from the source (strings of checks, commands, reports; pages; templates; README and docs); findings as they
are rendered are checked by ``refused`` in tests/test_rule_fixtures.py, over all examples.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests import source
from tests.sentences import PHRASES, refused

ROOT = Path(__file__).parents[1]
#: Folders whose strings users read; of rules also the pages.
SPOKEN: Final = ("rules", "report", "engine", "cli", "live", "advise", "share/agents")


def texts() -> Iterator[tuple[str, str]]:
    """Name and text of everything to read: a file of prose, or one string of the code."""
    for path in sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]):
        yield path.name, re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.S)
    for path in sorted((source.PACKAGE / "rules").rglob("*.md")):
        yield path.name, re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.S)
    for path in sorted(source.PACKAGE.rglob("templates/*")):
        yield path.name, path.read_text(encoding="utf-8")
    for folder in SPOKEN:
        for path in source.modules(folder):
            tree = source.tree(path)
            documented = {
                id(node.body[0].value)
                for node in ast.walk(tree)
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
                and node.body
                and isinstance(node.body[0], ast.Expr)
                and not (isinstance(node, ast.FunctionDef) and folder == "cli" and node.decorator_list)
            }
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
                    yield f"{path.relative_to(source.PACKAGE)}:{node.lineno}", node.value


def test_no_text_has_a_phrase_of_the_list() -> None:
    found = [
        f"{name}: {match[0]!r}: {better}"
        for name, text in texts()
        for pattern, better in PHRASES
        if (match := pattern.search(" ".join(text.split())))
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "1 ranks wait", "rank {rank} waits", "the host is None", "ranks [0, 1] wait", "('a', 'b') differ", "nan GB/s",
        "two  blanks", "Rank 1,4 stopped", "node1, node2 does not use NVLS", "a finding .", "1 lines of it",
        "0 of 368 with GDRDMA connections GB/s GB/s", "took 1e-09 s", "<built-in method x>",
    ],
)  # fmt: skip
def test_what_a_program_leaves_in_a_sentence_is_seen(text: str) -> None:
    assert refused(text)


@pytest.mark.parametrize(
    "text",
    [
        "1 rank waits for rank 3", "ranks 0-3,7 wait", "11 ranks wait", "node1 and node2 do not use NVLS", "41 GB/s",
        "`ls -l ${NCCL_TOPO_FILE}`", "rank 1 of 4", "see dmesg -T | grep -i xid", "NCCL 2.21.5", "x.y (1 line)",
    ],
)  # fmt: skip
def test_a_good_sentence_passes(text: str) -> None:
    assert refused(text) == []
