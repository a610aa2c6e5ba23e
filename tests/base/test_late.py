"""Patterns that are compiled late, or were compiled by an earlier start, are those that re.compile gives."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nccl_insight.base import kept, late

PATTERNS = [
    (r"(?P<a>[a-z]+)(?:=(?P<b>\d+))?", 0),
    (r"(?i)rank ([0-9]{1,3})\b(?!x)", 0),
    (rb"\x1b\[[0-9;]*m|(?s:a.b)", 0),
    (r"^ä+\s*(x|y)?$", re.M | re.I),
    (r"(?x) a  # with a comment", re.ASCII),
    ("(?:[\u0391-\u03a9\u4e00-\u9fff]|\U0001f600){2,}", 0),
]
TEXTS = ["ab=12, c", "RANK 17x rank 9.", "\x1b[0;1m a\nb", "Ä ää  X\nää", "ΑΩ一😀", ""]


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing was compiled before, and what is kept stands in a folder of the test."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(kept, "place", lambda name: tmp_path / name)
    _again()
    yield
    _again()


def _again() -> None:
    late.known.cache_clear()
    late.made.cache_clear()


def _found(pattern: re.Pattern[str] | re.Pattern[bytes]) -> list[object]:
    texts = [t.encode() if isinstance(pattern.pattern, bytes) else t for t in TEXTS]
    return [[(m.span(), m.groups(), m.groupdict(), m.lastgroup) for m in pattern.finditer(t)] for t in texts]


@pytest.mark.usefixtures("started")
@pytest.mark.skipif(sys.version_info < (3, 11), reason="nothing is kept")
def test_a_pattern_of_an_earlier_start_is_what_the_compiler_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [re.compile(*given) for given in PATTERNS]
    assert any(map(_found, wanted))
    for start in ("first", "second"):
        made = [late.made(*given) for given in PATTERNS]
        for one, other in zip(wanted, made, strict=True):
            assert (other.pattern, other.flags, other.groups) == (one.pattern, one.flags, one.groups)
            assert dict(other.groupindex) == dict(one.groupindex)
            assert _found(other) == _found(one)
        late.keep(late.known(), len(PATTERNS) if start == "second" else 0)
        _again()
        if start == "first":  # no compiler is asked any more
            monkeypatch.setattr(importlib.import_module("re._compiler"), "_code", None)


@pytest.mark.usefixtures("started")
def test_a_process_that_compiles_a_whole_grammar_keeps_nothing(tmp_path: Path) -> None:
    for number in range(501):
        late.made(f"a{number}")
    late.keep(late.known(), 0)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("started")
@pytest.mark.parametrize("codes", [{("a", 0): (32, b"\x63\x00\x00\x00", 0, {}, (None,))}, {("a", 0): "x"}])
def test_what_no_engine_takes_is_compiled_anew(codes: object) -> None:
    kept.write("patterns", sys.version, codes)
    assert late.made("a").fullmatch("a")


def test_a_wrong_pattern_is_told() -> None:
    with pytest.raises(re.error):
        late.made("(")
