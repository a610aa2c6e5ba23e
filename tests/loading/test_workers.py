"""Where tasks run that read inputs for a run."""

from __future__ import annotations

import gzip
import importlib.util
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nccl_insight.base.errors import UsageError
from nccl_insight.loading import spread
from nccl_insight.loading.spread import RayWorkers
from nccl_insight.readers.nccl_log import shares
from nccl_insight.share.api import analyze, load
from tests.shares import ROOT, RUNS, Elsewhere, small_shares

LOGS = ["healthy-16rank-ib", "ib-2.14", "perrank-2.14", "split-tp4-dp2-2.27", "gb200-mnnvl"]


def verdict(paths: list[str], monkeypatch: pytest.MonkeyPatch, workers: Any) -> tuple[str, dict[str, Any]]:
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
