"""Redaction by lines and shapes gives what redaction of the whole text gives, and every match is looked for."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nccl_insight.share.redact import Redactor, collect, patterns, shapes
from nccl_insight.share.redact.loose import loosened
from nccl_insight.tables.run import build_run
from tests.runs import RUNS
from tests.share.redact.classes_of_names import CLASSES

PATTERNS = {
    "user": [patterns.RE["user"]],
    "place": [patterns.RE["place"]],
    "job": [patterns.RE["job"]],
    "number": [patterns.RE["job_number"]],
    "secret": [patterns.RE["secret"], patterns.RE["bearer"]],
    "keys": [patterns.RE["keys"]],
    "marked": [patterns.RE["marked"]],
    "numbers": [patterns.RE["numbers"]],
    "guid": [patterns.RE["guid"]],
    "images": [patterns.RE["image"]],
    "places": [patterns.RE["places"]],
    "person": [patterns.RE["person"]],
}
ASCII = st.characters(min_codepoint=9, max_codepoint=126)


@pytest.mark.parametrize("kind", PATTERNS)
@settings(derandomize=True, max_examples=100, deadline=None)
@given(data=st.data())
def test_every_match_has_a_word_in_the_line_where_it_begins(kind: str, data: st.DataObject) -> None:
    pattern = data.draw(st.sampled_from(PATTERNS[kind]))
    text = data.draw(st.from_regex(re.compile(pattern.pattern), alphabet=ASCII))
    match = pattern.search(text)
    assume(match is not None)
    assert match is not None
    begin = text.rfind("\n", 0, match.start()) + 1
    line = text[begin:].partition("\n")[0] + "\n"
    assert patterns.may_match(kind, line), (match[0], line)
    lines = shapes.pieces(text + "\n")
    assert any(a <= text.count("\n", 0, begin) < b for a, b in shapes.sections(lines, loosened([pattern]))), text


@pytest.mark.parametrize("kind", PATTERNS)
@settings(derandomize=True, max_examples=40, deadline=None)
@given(data=st.data())
def test_every_match_ends_in_the_section_where_it_begins(kind: str, data: st.DataObject) -> None:
    pattern = data.draw(st.sampled_from(PATTERNS[kind]))
    text = data.draw(st.from_regex(re.compile(pattern.pattern), alphabet=ASCII)) + "\nx\ny\nz\n"
    match = pattern.search(text)
    assume(match is not None)
    assert match is not None
    lines = shapes.pieces(text)
    at = text.count("\n", 0, match.start())
    last = text.count("\n", 0, match.end() - 1)
    ends = [end for begin, end in shapes.sections(lines, loosened([pattern])) if begin <= at < end]
    assert ends
    assert last < ends[0], (match[0], lines)


def _whole(monkeypatch: pytest.MonkeyPatch, log: str) -> str:
    """The log redacted as one text, no line looked at by its shape."""
    with monkeypatch.context() as patch:
        patch.setattr("nccl_insight.share.redact.redactor._SHORT", 1 << 40)
        return collect(build_run({}), [log]).text(log)


def _planted(draw: random.Random) -> str:
    """Lines of logs, repeated with other numbers, with an identifier of every class here and there."""
    log = draw.choice(sorted(RUNS.rglob("*.log")))
    lines = log.read_text("utf-8", "surrogateescape").splitlines()[:60] or [""]
    numbered = [re.sub("[0-9](?=[0-9]* )", str(turn), line) for turn in range(3) for line in lines]
    for kind in CLASSES:
        at = draw.randrange(len(numbered))
        numbered[at : at + draw.randrange(2)] = [numbered[at] + draw.choice(" ,(=\t") + CLASSES[kind](draw)[0]]
    return "\n".join(numbered) + draw.choice(["\n", ""])


@pytest.mark.parametrize("seed", range(8))
def test_lines_by_shape_give_what_the_whole_text_gives(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    log = _planted(random.Random(seed))
    if seed % 2:
        log = log.replace("NCCL INFO", "NCCL \udcff INFO", 3)
    assert collect(build_run({}), [log]).text(log) == _whole(monkeypatch, log)


NUMBERS = [
    "0", "12", "123456789012", "0x7f3a11c0", "3.25", "0..1", "2[2]", "0[1a000]", "05/0", "1/-1/-1->0->63", "12/16",
    "-1", "+5", "[7]", "(9)", "2026-01-02", "[2026-01-02 03:04:05]", "2026-01-02T03:04:05.123456Z", "56b", "f2",
    "2026-01-02T03:04:05,123+05:30", "03:04:05.5", "abcdef12", "0x0", "1]", "trainer:12:34", "gpu1:1:99999999",
    "-12-", "7-", "[0x1f]",
]  # fmt: skip


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("glue", [" ", "=", ",", ' "', ": ", " [", "->", "|"])
def test_a_number_that_is_masked_says_nothing(number: str, glue: str) -> None:
    line = f"sent{glue}{number} of{glue}{number} end\n"
    assert Redactor().text(line) == line, "by itself"
    shape = shapes.shapes([line], (), integers=False)[0]
    assert shape is not None
    change = shapes.change(shape, shape.replace("sent", "a").replace("end", "b"))
    assert change is not None
    assert change.apply(line) == line.replace("sent", "a").replace("end", "b")


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ("cafe:1:2 [0] NCCL INFO x", "cafe"),
        ("USER=abe", "abe"),
        ("JOB_NAME=2026-01-02", "2026-01-02"),
        ("JOB_NAME=12.5", "12.5"),
        ("Submitted batch job 8123456", "8123456"),
        ("c4d:1:2 [0] NCCL INFO x", "c4d"),
        ("10-20-30-40:1:2 [0] NCCL INFO x", "10-20-30-40"),
    ],
)
def test_names_that_look_like_numbers_are_found(head: str, name: str) -> None:
    log = f"{head}\n" + "".join(f"at {n} {name} and [{n}] {name}, x={name} 0x{n:x} 1.{n}\n" for n in range(100))
    out = collect(build_run({}), [log]).text(log)
    assert len(log) > 2000
    assert name not in out


def test_a_trace_of_one_line_is_redacted_in_parts() -> None:
    event = '{"ph": "X", "ts": %d.%d, "args": {"addr": "10.77.3.%d", "hostname": "zq07", "n": [1, 2]}, "tid": %d}'
    line = '{"traceEvents": [' + ", ".join(event % (n, n % 10, n % 200 + 1, n) for n in range(500)) + "]}"
    out = collect(build_run({}), [line]).text(line)
    assert "10.77.3." not in out
    assert "zq07" not in out
    assert out.count('"ph": "X"') == 500
    assert "".join(shapes.pieces(line)) == line
    assert max(map(len, shapes.pieces(line))) < 4096


def test_many_hosts_that_are_no_words_are_replaced_longest_first() -> None:
    log = "".join(
        f"h+{n}:1:2 [0] NCCL INFO x \udcff\n" if n % 5 == 0 else f"h+{n}:1:2 [0] NCCL INFO x\n" for n in range(300)
    )
    redactor = collect(build_run({}), [log])
    out = redactor.text(log + "from h+12 and ah+123b\n")
    assert "h+" not in out
    assert out.splitlines()[-1] == f"from {redactor.names.hosts['h+12']} and a{redactor.names.hosts['h+123']}b"
    assert redactor.text("h+123") == redactor.names.hosts["h+123"]
