"""Inputs read by many processes: the same bytes out as when one reads all, also when a worker is killed."""

from __future__ import annotations

import gzip
import importlib.util
import os
import pickle
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nccl_insight.base.errors import UsageError
from nccl_insight.cli.progress import Tasks, tasks_line
from nccl_insight.inputs import chunks
from nccl_insight.inputs import find as inputs_find
from nccl_insight.inputs.find import find_inputs
from nccl_insight.loading import spread
from nccl_insight.readers.nccl_log import shares
from nccl_insight.readers.workers import RayWorkers, Workers
from nccl_insight.share.api import analyze, load

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "fixtures" / "runs"
LOGS = ["healthy-16rank-ib", "ib-2.14", "perrank-2.14", "split-tp4-dp2-2.27", "gb200-mnnvl"]


class Elsewhere:
    """Workers that get and give nothing but bytes, as other processes would."""

    slots = 3

    def __init__(self) -> None:
        self.tasks: list[str] = []

    def start(self, function: Callable[..., bytes], *arguments: Any) -> Any:
        self.tasks.append(function.__name__)
        called, given = pickle.loads(pickle.dumps((function, arguments)))
        return called(*given)

    def result(self, token: Any) -> bytes:
        assert isinstance(token, bytes)
        return token

    def counts(self) -> tuple[int, int]:
        return len(self.tasks), len(self.tasks)

    def close(self) -> None:
        pass


def small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file counts as large from 3 kB on, and a share has about 5 kB."""
    monkeypatch.setattr(inputs_find, "_SMALL_BYTES", 3_000)
    monkeypatch.setattr(spread, "_SHARE_LEAST", 5_000)
    monkeypatch.setattr(spread, "_SHARE_MOST", 5_000)
    monkeypatch.setattr(spread, "_GROUP_MOST", 3)
    monkeypatch.setattr(chunks, "_LEAST_BYTES", 4_001)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 4_001)


def verdict(paths: list[str], monkeypatch: pytest.MonkeyPatch, workers: Workers) -> tuple[str, dict[str, Any]]:
    """JSON and tables of what workers read."""
    monkeypatch.setattr(spread, "RayWorkers", lambda counted=False: workers)
    run = load(paths, engine="ray")
    return analyze(run).to_json(), tables(run)


def tables(run: Any) -> dict[str, Any]:
    return {name: frame.select(sorted(frame.columns)) for name, frame in run.tables.items() if frame.height}


@pytest.fixture(params=[*LOGS, "torn", "unpacked"])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with the logs of a run."""
    folder = tmp_path / "job"
    if request.param in LOGS:
        shutil.copytree(RUNS / request.param, folder)
        for packed in folder.glob("*.gz"):
            packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
            packed.unlink()
    if request.param == "torn":
        folder.mkdir()
        (log,) = (RUNS / "healthy-16rank-ib").iterdir()
        whole = gzip.decompress(log.read_bytes()) if log.suffix == ".gz" else log.read_bytes()
        lines = whole.splitlines(keepends=True)
        for n in range(7, len(lines), 9):
            lines[n] = lines[n][: len(lines[n]) // 2] + lines[n]
        (folder / "a.log").write_bytes(b"".join(lines))
        (folder / "b.log").write_bytes(b"")
        (folder / "c.log").write_bytes(b"no line ends here")
    if request.param == "unpacked":
        folder.mkdir()
        for log in (RUNS / "healthy-16rank-ib").iterdir():
            data = gzip.decompress(log.read_bytes()) if log.suffix == ".gz" else log.read_bytes()
            (folder / "one.log").write_bytes(data)
            (folder / "packed.log.gz").write_bytes(gzip.compress(data))
    return folder


@pytest.mark.part(3)
def test_shares_change_nothing(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = load([str(job)])
    expected = analyze(local).to_json(), tables(local)
    small_shares(monkeypatch)
    workers = Elsewhere()
    got = verdict([str(job)], monkeypatch, workers)
    assert got[0] == expected[0]
    assert sorted(got[1]) == sorted(expected[1])
    for name, frame in expected[1].items():
        assert frame.equals(got[1][name]), name
    assert workers.tasks.count("_take") > 1
    assert "_join_taken" in workers.tasks


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


def test_shares_are_about_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs_find, "_SMALL_BYTES", 1_000)
    for name, size in (("a", 300), ("b", 300), ("c", 10_000), ("d", 300)):
        (tmp_path / name).write_bytes(b"x" * size)
    files = find_inputs([str(tmp_path)])
    found = list(shares.shares(files, 2_000))
    assert [(tuple(f.input_id for f in s.files), s.begin, s.end) for s in found] == [
        ((0, 1), 0, -1), ((2,), 0, 2_000), ((2,), 2_000, 4_000), ((2,), 4_000, 6_000), ((2,), 6_000, 8_000),
        ((2,), 8_000, -1), ((3,), 0, -1),
    ]  # fmt: skip


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


def test_without_ray_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(UsageError, match="nccl-insight\\[ray\\]"):
        RayWorkers()


class Killing(RayWorkers):
    """Workers of Ray, of which the first that reads a share kills itself in the middle of it, once."""

    def __init__(self, mark: Path) -> None:
        super().__init__()
        self._mark = str(mark)

    def start(self, function: Callable[..., bytes], *arguments: Any) -> Any:
        if function.__name__ == "_take":
            return super().start(_die_once, self._mark, *arguments)
        return super().start(function, *arguments)


def _die_once(mark: str, share: shares.Share, details: bool) -> bytes:
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return spread._take(share, details)
    shares.take(share, details)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed (extra ray)")
def test_ray_gives_the_same_bytes_and_a_killed_worker_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    for name in ("healthy-16rank-ib", "perrank-2.14"):
        for log in (RUNS / name).iterdir():
            data = gzip.decompress(log.read_bytes()) if log.suffix == ".gz" else log.read_bytes()
            (folder / f"{name}-{log.stem}.log").write_bytes(data * 3)
    expected = analyze([str(folder)]).to_json()
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    small_shares(monkeypatch)
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, log_to_driver=False)
    try:
        assert verdict([str(folder)], monkeypatch, RayWorkers())[0] == expected
        counting = RayWorkers(counted=True)
        assert verdict([str(folder)], monkeypatch, counting)[0] == expected
        done, begun = counting.counts()
        assert done == begun > 2
        mark = tmp_path / "killed"
        assert verdict([str(folder)], monkeypatch, Killing(mark))[0] == expected
        assert mark.exists()
    finally:
        ray.shutdown()
