"""An expression for Rust's engine is found wherever the pattern is that it was made from."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nccl_insight.base import texts
from nccl_insight.share.redact import said
from nccl_insight.share.redact.loose import loosened

SAID = ["prompt", "hosts", "lists", "users", "jobs", "kubectl", "pairs"]
LETTERS = st.one_of(st.characters(min_codepoint=32, max_codepoint=126), st.sampled_from("éß我\u00a0\x1c\t"))


def _found(pattern: re.Pattern[str], line: str) -> bool:
    return bool(pl.Series([line]).str.contains(loosened([pattern]))[0])


@pytest.mark.parametrize("name", SAID)
@settings(derandomize=True, max_examples=60, deadline=None)
@given(data=st.data())
def test_every_match_of_a_line_is_found(name: str, data: st.DataObject) -> None:
    pattern = re.compile(texts.patterns(Path(said.__file__).with_suffix(".txt"))[name])
    line = data.draw(st.from_regex(pattern, alphabet=LETTERS)).partition("\n")[0]
    assume(pattern.search(line))
    assert _found(pattern, line), line


@pytest.mark.parametrize(
    ("pattern", "line", "found"),
    [
        (r"(?<![\w.])node(\d)?(?=: )", "x node: up", True),
        (r"(?<![\w.])node(?=: )", "my.node: up", False),
        (r"(?<![\w.])node(?=: )", "node up", False),
        (r"(?<![^\s(])on (\w+)", "épons (on gpu", True),
        (r"(?<![^\s(])on (\w+)", "iteration 3", False),
        (r"\[(?!rank)([a-z]+)(?=\]:[0-9]{4,5}(?![\w:-]))", "[host]:12345", True),
        (r"\[(?!rank)([a-z]+)(?=\]:[0-9]{4,5}(?![\w:-]))", "[host]:2026-03", False),
        (r"(?:(?<=-)A|B)x{2,3}\b", "Bxx é", True),
        (r"user (?P<name>[\wß]{1,3})", "user 我", True),
        (r"(?i)key[\w[]=", "KEY[=", True),
        (r"a\sb", "a\x1cb", True),
    ],
)
def test_looks_around_at_the_edges_become_part_of_the_match(pattern: str, line: str, found: bool) -> None:
    assert _found(re.compile(pattern), line) is found
