"""Inputs read by many processes: the same bytes out as when one reads all, also when a worker is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from nccl_insight.cli.progress import Tasks, tasks_line
from nccl_insight.inputs import chunks
from nccl_insight.inputs.find import find_inputs
from nccl_insight.loading import spread
from nccl_insight.share.api import load
from tests.shares import RUNS, Elsewhere, small_shares


def test_evidence_of_a_share_is_read_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    text = "".join(f"node0:1:1 [0] NCCL INFO frobnicating {n}\n" for n in range(1, 1001))
    log.write_text(text)
    small_shares(monkeypatch)
    monkeypatch.setattr(spread, "RayWorkers", lambda counted=False: Elsewhere())
    run = load([str(log)], engine="ray")
    wanted = [(0, 1), (0, 500), (0, 1000)]
    assert run.reader.lines(wanted) == {(0, n): f"node0:1:1 [0] NCCL INFO frobnicating {n}" for n in (1, 500, 1000)}


def test_a_file_is_cut_without_gaps(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_bytes(b"".join(b"a:1:1 [0] NCCL INFO x\nsecond line of it %d\n" % n for n in range(500)))
    (file,) = find_inputs([str(log)])
    places = [chunks.boundary(file, at) for at in range(0, file.size_bytes + 1, 7)]
    assert places == sorted(places)
    data = log.read_bytes()
    assert all(place == len(data) or data[place:].startswith(b"a:1:1 [0] NCCL") for place in places)
    assert chunks.boundary(file, 0) == 0
    assert chunks.boundary(file, file.size_bytes) == file.size_bytes


def test_text_without_nccl_is_cut_at_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "run.log"
    log.write_bytes(b"some program says something\n" * 120_000)
    monkeypatch.setattr(chunks, "_SEARCHED_MOST", 1 << 20)
    (file,) = find_inputs([str(log)])
    assert chunks.boundary(file, 1_000_000) % 28 == 0
    assert 0 <= chunks.boundary(file, 1_000_000) - 1_000_000 < 28


def test_tasks_are_counted_while_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    workers, seen = Elsewhere(), []
    monkeypatch.setattr(spread, "RayWorkers", lambda counted: workers if counted else None)
    load([str(RUNS / "ib-2.14")], engine="ray", watch=lambda count: seen.append(count and count()))
    assert seen == [(0, 0), None]
    tasks = Tasks()
    assert tasks.counts() is None
    tasks(workers.counts)
    assert tasks.counts() == (len(workers.tasks), len(workers.tasks))
    assert len(workers.tasks) >= 2
    assert tasks_line(1_200, 4_000, 3.2) == "reading on Ray: 1,200 of 4,000 tasks, 3 s"
