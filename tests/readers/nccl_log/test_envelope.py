"""Logs in the envelopes of collectors, exports and web pages, and wrapped ones, say what the bare log says."""

from __future__ import annotations

import html
import json
import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import polars as pl
import pytest

import nccl_insight
from nccl_insight.loading import load
from nccl_insight.readers.nccl_log.envelope import opened
from tests import planted

_TIME: Final = "2026-03-04T05:06:07.123456789Z"
_COUNTED: Final = ("ranks", "connections", "rings", "errors", "env", "networks", "versions")


def _doubled(line: str) -> str:
    return line.replace('"', '""')


def _quoted(line: str) -> str:
    """As a writer of CSV quotes a field that needs it."""
    return f'"{_doubled(line)}"' if "," in line or '"' in line else line


WRITERS: dict[str, Callable[[int, str], str]] = {
    "docker": lambda i, s: json.dumps({"log": s + "\n", "stream": "stdout", "time": _TIME}),
    "journald": lambda i, s: json.dumps(
        {"__REALTIME_TIMESTAMP": str(1772600767123456 + i), "_HOSTNAME": "a", "_PID": "7", "MESSAGE": s}
    ),
    "cloudwatch": lambda i, s: json.dumps({"timestamp": 1772600767123 + i, "message": s, "ingestionTime": 1}),
    "pretty": lambda i, s: (
        f'  {{\n   "timestamp": {1772600767123 + i},\n   "message": {json.dumps(s)},\n   "id": "{i}"\n  }},'
    ),
    "gcp": lambda i, s: json.dumps({"jsonPayload": {"message": s}, "timestamp": _TIME, "severity": "INFO"}),
    "nested": lambda i, s: json.dumps({"log": json.dumps({"msg": s, "level": "info"}), "stream": "stderr"}),
    "loki-csv": lambda i, s: f'{1772600767123 + i},{_TIME},"{{""pod"":""w""}}","{_doubled(s)}",{i}',
    "datadog-csv": lambda i, s: f'"{_TIME}","w-1","train","{_doubled(s)}"',
    "plain-csv": lambda i, s: f'{_TIME},"{_doubled(s)}"',
    "minimal-csv": lambda i, s: f"{1772600767123 + i},{_quoted(s)}",
    "logfmt": lambda i, s: f'time="{_TIME}" level=info msg={json.dumps(s)} pod=w-1',
    "html": lambda i, s: html.escape(s),
    "backticks": lambda i, s: f"`{s}`" if s else s,
    "spelled-escapes": lambda i, s: f"#033[34m{s}#033[0m",
    "buildkite": lambda i, s: f"\x1b_bk;t={1772600767123 + i}\x07{s}",
    "notebook": lambda i, s: f"      {json.dumps(s + chr(10))},",
    "nbsp": lambda i, s: s.replace(" ", "\u00a0"),
    "markdown-row": lambda i, s: f"| {s.replace('|', chr(92) + '|')} |",
    "timed-row": lambda i, s: f"| {_TIME} | {s} |",
    "frame": lambda i, s: f"│ {s:<160} │",
    "break": lambda i, s: f"{s}<br>",
    "element": lambda i, s: f"<li><code>{html.escape(s)}</code></li>",
    "printed-list": lambda i, s: f" {s + chr(10)!r},",
    "printed-bytes": lambda i, s: repr(s.encode()),
}


@cache
def _lines() -> tuple[str, ...]:
    return tuple(planted.log("2.28.9", planted.CONDITIONS).removesuffix("\n").split("\n"))


def _said(path: Path) -> tuple[object, ...]:
    run = nccl_insight.load([path])
    analysis = nccl_insight.analyze(run)
    found = sorted((f.name, f.severity.value, f.ranks, f.hosts) for f in analysis.findings)
    return analysis.status, found, {t: run.table(t).height for t in _COUNTED if run.has(t)}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    path = tmp_path_factory.mktemp("bare") / "run.log"
    path.write_text("\n".join(_lines()) + "\n", encoding="utf-8")
    return _said(path)


@pytest.mark.part(2)
@pytest.mark.parametrize("kind", sorted(WRITERS))
def test_an_envelope_changes_nothing(kind: str, bare: tuple[object, ...], tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("\n".join(WRITERS[kind](i, s) for i, s in enumerate(_lines())) + "\n", encoding="utf-8")
    assert _said(path) == bare


@pytest.mark.part(2)
@pytest.mark.parametrize("width", [80, 100, 120, 160])
@pytest.mark.parametrize("words", [False, True])
def test_a_terminals_width_changes_nothing(width: int, words: bool, bare: tuple[object, ...], tmp_path: Path) -> None:
    wrapped: list[str] = []
    for line in _lines():
        if words:
            wrapped += textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) or [""]
        else:
            wrapped += [line[at : at + width] for at in range(0, len(line), width)] or [""]
    path = tmp_path / "run.log"
    path.write_text("\n".join(wrapped) + "\n", encoding="utf-8")
    assert _said(path) == bare


def test_wrapped_logs_among_many_small_ones(tmp_path: Path) -> None:
    """Small inputs are looked at together, and only those that are wrapped are put together."""
    wrapped = [line[at : at + 100] for line in _lines() for at in range(0, len(line), 100)]
    inputs = {number: wrapped if number % 3 == 1 else _lines() for number in range(7)}
    for number, lines in inputs.items():
        (tmp_path / f"{number}.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    alone = [load(str(tmp_path / f"{n}.log")).table("ranks").drop("input_id") for n in inputs]
    ranks = load([str(tmp_path / f"{n}.log") for n in inputs]).table("ranks")
    assert ranks["input_id"].unique().sort().to_list() == list(inputs)
    for number, rows in enumerate(alone):
        together = ranks.filter(pl.col("input_id") == number).drop("input_id")
        same = [c for c in rows.columns if not c.startswith("comm_id")]
        assert together.select(same).equals(rows.select(same))


def _opened(*lines: str) -> list[str]:
    text = "\n".join(lines)
    return opened(pl.Series(lines), lambda sign: sign in text).to_list()


def test_the_time_of_the_collector_goes_in_front() -> None:
    assert _opened('{"log":"a:1:2 [0] NCCL INFO x\\n","time":"2026-03-04T05:06:07Z"}') == [
        "2026-03-04T05:06:07Z a:1:2 [0] NCCL INFO x"
    ]
    # 1772600767 s since 1970 are 2026-03-04 05:06:07 UTC.
    assert _opened('{"message":"a:1:2 [0] NCCL INFO x","timestamp":1772600767000}') == [
        "2026-03-04T05:06:07Z a:1:2 [0] NCCL INFO x"
    ]


@pytest.mark.parametrize(
    "line",
    [
        '{"loss": 2.5, "message": "step"}',
        '{"message": "no object here',
        '[1, 2, {"a": 3}]',
        'a:1:2 [0] NCCL INFO said "so", twice, and "again"',
        'print("NCCL")',
        "time=5 level=info msg=bare NCCL",
        "| NCCL_DEBUG | INFO |",
        "| 0  NVIDIA H100 80GB HBM3  On | 00000000:19:00.0 Off | 0 |",
        "a:1:2 [0] NCCL INFO threadThresholds 8/8/64 |",
        '  File "/app/train.py", line 8, in <module>',
        "a:1:2 [0] NCCL INFO vector of std::pair<int, float>",
        "'said\\n',",
    ],
)
def test_what_is_no_envelope_stays(line: str) -> None:
    assert _opened(line) == [line]


def test_objects_without_the_text_of_the_job_stay() -> None:
    other = '{"level": "info", "step": 7}'
    assert _opened('{"log": "a:1:2 [0] NCCL INFO x"}', other) == ["a:1:2 [0] NCCL INFO x", other]


@pytest.mark.parametrize(
    "line",
    [
        '{"log": "\\ud800 NCCL INFO"}',
        '   "message": "a:1:2 [0] NCCL INFO \\ud800",',
        'level=info msg="a:1:2 [0] NCCL INFO \\ud800"',
        '{"message": "a:1:2 [0] NCCL INFO x", "time": 1e999, "timestamp": "nan"}',
        '{"log": {"log": {"log": {"log": {"log": "NCCL INFO"}}}}}',
        ',"a","NCCL\r INFO"',
    ],
)
def test_odd_envelopes_are_survived(line: str) -> None:
    assert len(_opened(line)) == 1


_FIRST: Final = '{"log":"a:1:2 [0] NCCL INFO x\\n","stream":"stdout","time":"2026-03-04T05:06:07Z"}'
_DEEP: Final = (
    '{"jsonPayload":{"message":"a:1:2 [0] NCCL INFO x"},"pod":{"n":1,"ok":true},"timestamp":"2026-03-04T05:06:07Z"}'
)


@pytest.mark.parametrize(
    ("sample", "line", "text"),
    [
        (_FIRST, _FIRST.replace("x", "y"), "2026-03-04T05:06:07Z a:1:2 [0] NCCL INFO y"),
        (_FIRST, _FIRST.replace("x", '\\"y\\"'), '2026-03-04T05:06:07Z a:1:2 [0] NCCL INFO "y"'),
        (_FIRST, _FIRST.replace("x", "y\u2028z"), "2026-03-04T05:06:07Z a:1:2 [0] NCCL INFO y z"),
        (_FIRST, _FIRST.replace("x\\n", "y\\r"), "2026-03-04T05:06:07Z a:1:2 [0] NCCL INFO y\r"),
        (_FIRST, _FIRST.replace(":", ": ").replace("a: 1: 2", "a:1:2"), "a:1:2 [0] NCCL INFO x"),
        (_FIRST, '{"log":"{\\"msg\\":\\"y\\"}","stream":"","time":""}', "y"),
        (_FIRST, '{"log":"y","log":"z","stream":"","time":"yesterday"}', "z"),
        (_FIRST, '{"log":"y","stream":"\\ud800","time":""}', None),
        (_DEEP, _DEEP.replace("1,", "-2.5,").replace("x", "y"), "2026-03-04T05:06:07Z a:1:2 [0] NCCL INFO y"),
        (_DEEP, _DEEP.replace("1,", "01,"), None),
        (_DEEP, _DEEP.replace("true", "[1]"), "2026-03-04T05:06:07Z a:1:2 [0] NCCL INFO x"),
    ],
)
def test_one_of_many_objects_says_what_it_says_alone(sample: str, line: str, text: str | None) -> None:
    wanted = line if text is None else text
    assert _opened(sample, line)[1] == wanted
    many = _opened(*[sample] * 2000, line, *[sample] * 2000)
    assert many[2000] == wanted
    assert set(many[:2000]) == set(many[2001:]) == {_opened(sample)[0]}


def test_lines_beside_a_table_stay_whole(tmp_path: Path) -> None:
    """Small files are read together: what one of them is says nothing of its neighbors."""
    table, plain = tmp_path / "a.csv.log", tmp_path / "b.log"
    table.write_text("".join(f"{1772600767123 + i},{_quoted(s)}\n" for i, s in enumerate(_lines())), encoding="utf-8")
    plain.write_text("\n".join(_lines()) + "\n", encoding="utf-8")
    run = nccl_insight.load([table, plain])
    counts = run.table("inputs").sort("input_id")["parsed_lines"].to_list()
    assert counts[0] == counts[1] == nccl_insight.load([plain]).table("inputs")["parsed_lines"][0]
