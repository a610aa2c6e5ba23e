"""No regular expression that Python runs can be made to hang by a text."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from nccl_insight.language.catalog import default_catalog
from nccl_insight.language.lint import lint
from tests.checks import NAMES
from tests.patterns import BOUNDED, BOUNDED_MODULES, all_patterns, apply, texts

# A guard against hanging, a thousand times what a linear pattern takes.
_GUARD_S = 60
_SIZE = 20_000


@pytest.fixture
def guard() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError("the pattern backtracks")

    before = signal.signal(signal.SIGALRM, stop)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_the_patterns_are_found() -> None:
    found = all_patterns()
    assert len(found) > 200
    for part in BOUNDED:
        assert any(part in pattern.pattern for pattern, _ in found.values() if isinstance(pattern.pattern, str)), part


def test_hostile_texts_end(guard: None) -> None:
    stuck = []
    for name, (pattern, kind) in all_patterns().items():
        source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
        size = next((most for part, most in BOUNDED.items() if part in source), _SIZE)
        size = BOUNDED_MODULES.get(name.partition(":")[0], size)
        signal.alarm(_GUARD_S)
        try:
            for text in texts(pattern, size):
                apply(pattern, kind, text)
        except TimeoutError:
            stuck.append(name)
        signal.alarm(0)
    assert not stuck


def test_grammar_patterns_are_deterministic() -> None:
    assert lint(default_catalog().grammar, NAMES) == []
