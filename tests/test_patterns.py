"""No regular expression that Python runs can be made to hang by a text."""

from __future__ import annotations

import re
import signal
import time
from typing import Any

import pytest

from nccl_insight.language.catalog import default_catalog
from nccl_insight.language.lint import lint
from tests import slices
from tests.checks import NAMES
from tests.patterns import BOUNDED, BOUNDED_MODULES, all_patterns, apply, texts

# A text of four times the length may take six times as long, by the least of some measures in time of the processor.
# What takes less than some milliseconds is not measured further: the square of this length takes more, whatever the
# pattern; and shorter times depend on what else the machine does.
_SIZE = 8_000
_LEAST_S = 0.015
_MOST = 6 * 1.5  # a machine that does other things, too; the square would be 16
_TRIES = 5
_GUARD_S = 60.0


def _seconds(pattern: re.Pattern[Any], kind: str, text: Any) -> float:
    """Seconds of the processor; those of the guard where the pattern backtracks without an end."""

    def stop(*_: object) -> None:
        raise TimeoutError("the pattern backtracks")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, _GUARD_S)
    begun = time.process_time()
    try:
        apply(pattern, kind, text)
    except TimeoutError:
        return _GUARD_S
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return time.process_time() - begun


def grows(pattern: re.Pattern[Any], kind: str, size: int, *, bounded: bool = False) -> str:
    """A text for which a pattern takes more than its share, empty when there is none.

    ``bounded``: the source gives it no longer texts, and its share is a microsecond for each two characters of one.
    """
    for small, large in zip(texts(pattern, size), texts(pattern, size * 4), strict=True):
        taken = _seconds(pattern, kind, small)
        if taken < _LEAST_S or (bounded and taken < size**2 * 1e-6 / 2):
            continue
        longer, short = (min(_seconds(pattern, kind, text) for _ in range(_TRIES)) for text in (large, small))
        if bounded or longer > _MOST * short:
            return str(small[:40])
    return ""


def test_time_grows_with_the_text() -> None:
    patterns = all_patterns()
    assert len(patterns) > 200
    sources = [pattern.pattern for pattern, _ in patterns.values()]
    for part in BOUNDED:
        assert any(part in written for written in sources if isinstance(written, str)), part
    found = []
    for name, (pattern, kind) in slices.part(patterns.items(), 12):
        source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
        size = next((most for part, most in BOUNDED.items() if part in source), _SIZE)
        size = BOUNDED_MODULES.get(name.partition(":")[0], size)
        if text := grows(pattern, kind, min(size, _SIZE), bounded=size < _SIZE):
            found.append(f"{text!r} of {name[:200]}")
    assert not found


@pytest.mark.parametrize("source", [r"image[a-z-]*/"])
def test_a_pattern_that_grows_is_found(source: str) -> None:
    assert grows(re.compile(source), "search", _SIZE * 2)


def test_grammar_patterns_are_deterministic() -> None:
    assert lint(default_catalog().grammar, NAMES) == []
