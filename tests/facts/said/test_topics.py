"""Topics of the grammar: words that checks ask for; no check reads texts by patterns of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import polars as pl
import pytest

from nccl_insight.base.errors import GrammarError
from nccl_insight.facts.said.topics import telling, told
from nccl_insight.language.load import default_grammar, topic_cases
from tests import source

#: Columns of free text; values that the grammar captures (names, addresses, versions, paths) are no texts.
TEXTS = frozenset({"text", "_text", "_body", "detail", "reason", "template", "example", "xid_text", "error_text"})
#: Methods that take a pattern.
PATTERNS = frozenset(
    {"contains", "extract", "extract_all", "extract_groups", "count_matches", "matching", "replace_all"}
)
SEARCHES = frozenset({"search", "match", "fullmatch", "findall", "finditer"})
#: Modules whose patterns read no line of a job, and what they read.
ALLOWED = {
    "engine/fill.py": "holes in the steps of this tool's own checks, and addresses in a line",
    "engine/help.py": "settings that a line of any wording offers",
    "engine/story.py": "the steps that a program counts in its own words",
    "engine/steps.py": "the steps of this tool's own checks",
    "facts/said/course.py": "the heads of kernel lines, as its reader has them",
    "facts/said/clock.py": "notations of a clock",
    "facts/said/last_words.py": "a value that stands on the line behind its label",
    "facts/progress/journey.py": "notes of this tool's own readers",
    "rules/launch/ni116_requested_plugin_missing.py": "the names of libraries",
    "rules/network/ni212_net_plugin_load_failed.py": "what the dynamic linker says, in NCCL's line",
    "rules/runtime/ni501_peer_died.py": "the system's own words for a reset",
    "rules/runtime/ni555_wrong_results.py": "figures in the text of a Python AssertionError",
}
ASKS = frozenset({"told", "telling", "mentions"})


def trees() -> Iterator[tuple[str, ast.Module]]:
    for folder in ("rules", "facts", "engine"):
        for path in source.modules(folder):
            yield str(path.relative_to(source.PACKAGE)), source.tree(path)


def _columns(node: ast.AST) -> set[str]:
    """Names of columns, keys and variables that an expression is made of."""
    found: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            found.add(part.value)
        if isinstance(part, ast.Name):
            found.add(part.id)
    return found


def _by_pattern(call: ast.Call) -> bool:
    """Whether a call searches a text with a pattern."""
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr in PATTERNS:
        return bool(_columns(call.func.value) & TEXTS)
    return call.func.attr in SEARCHES and any(_columns(argument) & TEXTS for argument in call.args)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('rows["text"].str.extract("a")', True),
        ('pl.col("text").fill_null("").str.contains("a")', True),
        ('re.search("a", str(row["text"]))', True),
        ("_PATTERN.search(text)", True),
        ('pl.col("name").str.contains("a")', False),
        ('rows["text"].to_list()', False),
    ],
)
def test_what_counts_as_a_pattern(code: str, found: bool) -> None:
    (call,) = (
        (n for n in ast.walk(source.parsed(code)) if isinstance(n, ast.Call) and _by_pattern(n)) if found else (None,)
    )
    assert (call is not None) is found


def test_no_check_reads_texts_by_a_pattern_of_its_own() -> None:
    """What a line means stands in the grammar; lines that no rule knows have the list of tables/normalise/fallback."""
    found = [
        f"{name}:{node.lineno}"
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _by_pattern(node) and name not in ALLOWED
    ]
    assert found == []


def asked() -> set[str]:
    """Topics that checks ask for by name."""
    found: set[str] = set()
    for _, tree in trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ASKS:
                place = 0 if isinstance(node.func, ast.Attribute) else 1
                if len(node.args) > place and isinstance(value := node.args[place], ast.Constant):
                    found.add(str(value.value))
    return found


def test_every_topic_is_asked_for_and_every_question_has_a_topic() -> None:
    text = default_grammar().sources["topics.lark"]
    defined = {line.removeprefix("//! define: ") for line in text.split("\n") if line.startswith("//! define: ")}
    assert asked() == defined
    for name in sorted(defined):
        assert topic_cases(name), name


def test_an_unknown_topic_is_an_error() -> None:
    with pytest.raises(GrammarError, match="no table of cases named weather"):
        topic_cases("weather")


def frame(**columns: list[object]) -> pl.DataFrame:
    return pl.DataFrame(columns)


def test_values_come_before_words() -> None:
    rows = frame(
        text=["Cuda failure 719 'unspecified launch failure'", "an illegal memory access was encountered", "fine"],
        cuda_error=[719, None, None],
    )
    assert told(rows, "cuda-late").to_list() == ["said", "said", None]
    assert telling(rows, "cuda-late", "said").height == 2
    assert told(rows.clear(), "cuda-late").to_list() == []
    assert told(frame(other=[1, 2]), "cuda-late").to_list() == [None, None]


def test_a_trail_is_known_by_its_file() -> None:
    rows = frame(
        text=["", "", "", ""],
        file=["init.cc", "transport/p2p.cc", "misc/socket.cc", "plugin_init.cc"],
        result=[3, 1, 3, 3],
    )
    assert told(rows, "trail").to_list() == ["application", "p2p-cuda", "socket", None]


def test_a_failed_call_outside_of_nvls_is_none_of_it() -> None:
    rows = frame(text=["Cuda failure 1 'invalid argument'"] * 2, source=["transport/nvls.cc:312", "transport/p2p.cc:9"])
    assert telling(rows, "nvls-failed")["source"].to_list() == ["transport/nvls.cc:312"]
