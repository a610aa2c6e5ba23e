"""Every line of every input has one fate: understood, unknown, foreign or torn; none is lost or counted twice."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from nccl_insight import analyze, load
from nccl_insight.engine.summary import coverage_of
from nccl_insight.report import json_, text
from tests.mutations import mutate
from tests.runs import HEALTHY, RUNS, SHARED

_MOST = 40_000
LOGS = sorted(path for path in RUNS.rglob("*.log") if path.is_file())


def _lines(data: bytes) -> int:
    return data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))


def _conserved(paths: list[Path], data: list[bytes]) -> None:
    """What is read as a log; a table of nccl-tests alone, say, has rows and no lines."""
    run = load([str(path) for path in paths])
    inputs = run.table("inputs").sort("input_id").rows(named=True)
    assert len(inputs) == len(data)
    logs = [content for row, content in zip(inputs, data, strict=True) if row["lines"] or row["kind"] == "nccl_log"]
    coverage = coverage_of(run)
    assert coverage.lines == sum(map(_lines, logs)), paths
    assert coverage.parsed + coverage.unknown + coverage.foreign + coverage.torn == coverage.lines, paths
    assert min(coverage.parsed, coverage.unknown, coverage.foreign, coverage.torn) >= 0


@pytest.mark.parametrize("log", LOGS[::4], ids=lambda path: path.parent.name)
def test_lines_of_runs_and_their_mutants(tmp_path: Path, log: Path) -> None:
    draw = random.Random(log.parent.name)
    whole = log.read_bytes()[:_MOST]
    data = [whole, mutate(whole, draw), mutate(mutate(whole, draw), draw)]
    paths = [tmp_path / f"{number}.log" for number in range(len(data))]
    for path, content in zip(paths, data, strict=True):
        path.write_bytes(content)
    _conserved(paths, data)
    packed = tmp_path / "packed.log.gz"
    packed.write_bytes(gzip.compress(data[1]))
    _conserved([packed], [data[1]])


@pytest.mark.parametrize(
    "data",
    [
        b"\n" * 50, b"x" * (2 << 20), b"\r\n" * 3, b"\0\n\0",
        b"h1:1:1 [0] NCCL INFO Chanh2:2:2 [1] NCCL INFO x\nnel 00\n",
        b"\xff\xfe\n",
    ],
    ids=["empty", "long", "crlf", "zeros", "torn", "bytes"],
)  # fmt: skip
def test_lines_of_odd_inputs(tmp_path: Path, data: bytes) -> None:
    whole = HEALTHY.read_bytes()[:5_000] + data
    (tmp_path / "a.log").write_bytes(whole)
    _conserved([tmp_path / "a.log"], [whole])


def test_reports_say_of_how_many_lines_they_speak(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"starting\n" * 7 + HEALTHY.read_bytes())
    analysis = analyze(str(log))
    shown = json.loads(json_.render(analysis))["coverage"]
    assert shown["foreign"] >= 7
    assert shown["parsed"] + shown["unknown"] + shown["foreign"] + shown["torn"] == shown["lines"]
    assert f"of {shown['nccl_lines']:,} NCCL lines understood" in " ".join(text.render(analysis).split())


@pytest.mark.skipif(not SHARED.exists(), reason="NCCL_INSIGHT_REFERENCE_DATA is not set")
def test_lines_of_the_collection() -> None:
    for log in sorted((SHARED / "corpus").glob("*/*.log"))[::8]:
        if log.stat().st_size < 400_000:
            _conserved([log], [log.read_bytes()])
