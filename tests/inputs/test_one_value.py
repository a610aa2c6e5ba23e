"""Logs that were put whole into one JSON value, a Python list, or one line with its line ends written out."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import nccl_insight
from nccl_insight.inputs.one_value import lines_within
from tests import planted


def _lines(text: str) -> list[str]:
    return text.splitlines()


FORMS: Final[dict[str, Callable[[str], str]]] = {
    "string": json.dumps,
    "lines": lambda text: json.dumps(text.splitlines()),
    "indented lines": lambda text: json.dumps(text.splitlines(), indent=2),
    "records": lambda text: json.dumps([{"message": line} for line in text.splitlines()]),
    "member": lambda text: json.dumps({"job": 7, "log": text}),
    "events": lambda text: json.dumps({"events": [{"message": line} for line in text.splitlines()]}),
    "streams": lambda text: json.dumps(
        {"data": {"result": [{"stream": {"pod": "a"}, "values": [["1700000000000000000", x] for x in _lines(text)]}]}}
    ),
    "python list": lambda text: repr(text.splitlines()),
    "python bytes": lambda text: repr(text.encode()),
    "escaped": lambda text: text.replace("\n", "\\n"),
}


def _said(path: Path) -> Any:
    analysis = nccl_insight.analyze(nccl_insight.load([path]))
    return analysis.status, [(f.name, f.severity, f.ranks, f.hosts) for f in analysis.findings]


def _log() -> str:
    return planted.log("2.28.9", planted.CONDITIONS)


@pytest.mark.part(2)
@pytest.mark.parametrize("form", FORMS)
def test_a_value_says_what_its_lines_say(form: str, tmp_path: Path) -> None:
    bare = tmp_path / "bare.log"
    bare.write_text(_log())
    wrapped = tmp_path / "run.json"
    wrapped.write_text(FORMS[form](_log()))
    assert _said(wrapped) == _said(bare)


def test_a_compressed_value_is_opened_too(tmp_path: Path) -> None:
    wrapped = tmp_path / "run.json.gz"
    wrapped.write_bytes(gzip.compress(json.dumps(_log()).encode()))
    lines = lines_within(wrapped)
    assert lines is not None
    assert lines.read_text() == _log()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1,0]<stdout>:gpu01:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n",
        "[2025-06-06 09:52:01] gpu01:1:1 [0] NCCL WARN Cuda failure 2 'out of memory'\n",
        '{"log":"gpu01:1:1 [0] NCCL INFO cudaDriverVersion 12040"}\n{"log":"gpu01:1:1 [0] NCCL INFO x"}\n',
        '["a line", "and another"]',
        '{"traceEvents": []}',
        '["gpu01:1:1 [0] NCCL INFO cut',
        "'''",
        "[[[[[[[[[[[[",
    ],
)
def test_what_is_no_such_value_stays(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(text)
    assert lines_within(path) is None


def test_a_trace_is_no_wrapped_log_whatever_its_events_say(tmp_path: Path) -> None:
    """Looking through a whole trace for lines would take as long as reading a third of it."""
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [{"message": "gpu01:1:1 [0] NCCL INFO Init COMPLETE"}]}))
    assert lines_within(path) is None
