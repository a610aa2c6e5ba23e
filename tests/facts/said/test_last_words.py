"""What the last foreign lines of an input say by their form."""

from __future__ import annotations

import pytest

from nccl_insight.facts.said.last_words import Tail, Word, tails, unwell
from tests.by_hand import run


def words_of(*texts: str, lines: int | None = None) -> Tail:
    given = [{"input_id": 0, "kind": "last words", "line": n, "text": text} for n, text in enumerate(texts, 1)]
    (tail,) = tails(run(endings=given, inputs=[{"input_id": 0, "lines": lines or len(texts)}]))
    return tail


@pytest.mark.parametrize(
    ("code", "signal", "ended"),
    [(None, 11, 11), (137, None, 9), (-6, None, 6), (1, None, None), (None, None, None), (300, None, None)],
)
def test_the_signal_behind_an_exit_code(code: int | None, signal: int | None, ended: int | None) -> None:
    assert Word(0, 1, "x", "exit code", code, signal).ended == ended


def test_an_exception_at_the_end_is_a_failure() -> None:
    tail = words_of(
        "loss 2.5", "Traceback (most recent call last):", '  File "train.py", line 7', "ValueError: bad batch"
    )
    assert [(word.line, word.exception) for word in tail.failures] == [(4, "ValueError")]
    assert (tail.good, tail.last, tail.last_line) == ("", "ValueError: bad batch", 4)


def test_what_the_user_ended_is_no_failure() -> None:
    tail = words_of("Traceback (most recent call last):", '  File "train.py", line 7', "KeyboardInterrupt")
    assert tail.failures == ()


def test_lines_far_from_the_end_are_none_of_the_last() -> None:
    given = [{"input_id": 0, "kind": "last words", "line": 3, "text": "ValueError: bad batch"}]
    assert tails(run(endings=given, inputs=[{"input_id": 0, "lines": 500}])) == ()
    assert tails(run()) == ()


def test_what_is_loud_and_not_harmless_is_unwell() -> None:
    line = {"input_id": 0, "level": "WARN", "diagnosis": "connection-refused"}
    rows = [
        {**line, "line": 1, "role": "root"}, {**line, "line": 2, "role": "benign"},
        {**line, "line": 3, "role": "root", "level": "INFO"}, {**line, "role": "root"},
    ]  # fmt: skip
    assert unwell(run(errors=rows))["line"].to_list() == [1]
