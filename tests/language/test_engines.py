"""Three engines (lark's Earley, Python's re, Rust's regex through polars) accept and capture the same."""

from __future__ import annotations

import os
import random
import re

import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra.lark import from_lark

from nccl_insight.language.compile import compile_message
from nccl_insight.language.load import default_grammar
from nccl_insight.language.reference import Reference, trailing_blanks
from nccl_insight.readers.nccl_log import extract
from tests import message_samples
from tests.language.parsed import parse
from tests.slices import SEED, part

GRAMMAR = default_grammar()
REFERENCE = Reference(GRAMMAR)
RULES = sorted(GRAMMAR.messages)
# Every rule is checked on its samples; their mutations and generated sentences go through a slice of the rules, a
# different one for every seed. NCCL_INSIGHT_ENGINE_EXAMPLES=200 NCCL_INSIGHT_TEST_SLICES=1 is the full run.
EXAMPLES = int(os.environ.get("NCCL_INSIGHT_ENGINE_EXAMPLES", "8"))
SLICE = part(RULES, 24)


def samples(rule: str) -> list[str]:
    return [sample.text for sample in message_samples.by_rule().get(rule, [])]


def mutations(text: str, count: int, seed: str) -> list[str]:
    """Deleted, doubled, swapped and foreign characters, truncations, and the text glued to itself."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        at = rng.randrange(len(text))
        kind = rng.randrange(6)
        if kind == 0:
            found.append(text[:at] + text[at + 1 :])
        elif kind == 1:
            found.append(text[:at] + text[at] + text[at:])
        elif kind == 2:
            found.append(text[:at] + text[at + 1 : at + 2] + text[at] + text[at + 2 :])
        elif kind == 3:
            found.append(text[:at] + rng.choice("0 -x:/[(é.") + text[at + 1 :])
        elif kind == 4:
            found.append(text[:at])
        else:
            found.append(text + rng.choice([" ", ""]) + text)
    return [t for t in (f.rstrip() for f in found) if t]


def compare(rule: str, texts: list[str]) -> None:
    """Asserts that all engines agree on every text: accepted or not, and every captured value."""
    compiled = compile_message(GRAMMAR, GRAMMAR.messages[rule])
    blanks = trailing_blanks(compiled)
    series = pl.Series("_body", texts)
    by_polars = extract._by_polars(compiled, series)
    by_python = extract._by_python(compiled, series)
    names = [name for name, _ in compiled.columns]
    for index, text in enumerate(texts):
        parsed = parse(REFERENCE, GRAMMAR, rule, text + blanks)
        assert parsed is None or not parsed.ambiguous, f"{rule}: two readings of {text!r}"
        for accepted, captured in (by_polars, by_python):
            assert bool(accepted[index]) == (parsed is not None), f"{rule}: {text!r}"
            if parsed is not None and names:
                row = {c.name: c[index] for c in captured if c[index] is not None}
                assert row == parsed.captures, f"{rule}: {text!r}"


@pytest.mark.parametrize("file", sorted(message_samples.by_file()))
def test_samples(file: str) -> None:
    for rule in message_samples.by_file()[file]:
        compare(rule, [text.rstrip() for text in samples(rule)])


@pytest.mark.parametrize("rule", SLICE)
def test_mutations(rule: str) -> None:
    texts = [m for text in samples(rule) for m in mutations(text, EXAMPLES, f"{rule} {text} {SEED}")]
    assert texts
    compare(rule, texts)


@pytest.mark.parametrize("rule", SLICE)
def test_generated_sentences(rule: str) -> None:
    parser = REFERENCE.parser(rule)
    printable = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp"), include_characters="\n\t")
    drawn: list[str] = []

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(from_lark(parser, start="start", alphabet=printable))
    def collect(text: str) -> None:
        if len(text) < 400 and text.strip():
            drawn.append(text.rstrip())

    collect()
    texts = sorted(set(drawn))
    if texts:
        compare(rule, texts)


def test_patterns_are_portable() -> None:
    """Every pattern compiles in both engines, without constructs that they read differently."""
    for name in RULES:
        pattern = compile_message(GRAMMAR, GRAMMAR.messages[name]).pattern
        assert not re.search(r"\\[dwsbDWSB]|\(\?[=!<][^P]", pattern), name
        re.compile(pattern)
    some = [compile_message(GRAMMAR, GRAMMAR.messages[n]).pattern for n in SLICE]
    text = pl.Series(["x"])
    for pattern in some:
        assert text.str.contains(f"^(?:{pattern})$").len() == 1
