"""A growing log is judged again; the verdict is told when the findings change."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from nccl_insight.base.errors import UsageError
from nccl_insight.base.model import Analysis
from nccl_insight.cli.following import follow
from nccl_insight.share import api
from nccl_insight.tables.run import Run
from tests.cli import run_cli
from tests.runs import TINY_SHM


def test_tells_when_findings_change(tmp_path: Path) -> None:
    lines = TINY_SHM.read_text().splitlines(keepends=True)
    log = tmp_path / "run.log"
    log.write_text("".join(lines[:20]))
    told: list[list[str]] = []
    rounds = 0

    def grow(seconds: float) -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 2:
            log.write_text("".join(lines))

    def show(analysis: Analysis) -> None:
        told.append([f.name for f in analysis.findings])

    def judge() -> tuple[Analysis, Run]:
        run = api.load(log)
        return api.analyze(run), run

    last = follow([str(log)], judge, show, idle_s=600, sleep=grow)
    assert last is not None
    assert [f.name for f in last[0].findings] == told[1]
    assert len(told) == 2
    assert "shm-too-small" not in told[0]
    assert "shm-too-small" in told[1]


def test_ends_on_interrupt(tmp_path: Path) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    follow([str(tmp_path)], lambda: pytest.fail("nothing to judge yet"), lambda a: None, sleep=interrupt)


def test_standard_input_cannot_be_followed() -> None:
    with pytest.raises(UsageError):
        follow(["-"], lambda: pytest.fail("never"), lambda a: None)


def test_from_the_command_line() -> None:
    result = run_cli("analyze", TINY_SHM, "--follow", "--idle", "1")
    assert result.returncode == 1
    assert result.stdout.count("FAIL") == 2


def test_an_archive_is_opened_once_as_long_as_it_stays_the_same(tmp_path: Path) -> None:
    import tarfile

    with tarfile.open(tmp_path / "run.tgz", "w:gz") as tar:
        tar.add(TINY_SHM, "run.log")
    judged = 0
    kept: list[Path] = []

    def judge() -> tuple[Analysis, Run]:
        nonlocal judged
        judged += 1
        run = api.load(tmp_path / "run.tgz")
        kept.append(run.inputs[0].path)
        return api.analyze(run), run

    def touch(seconds: float) -> None:
        if len(kept) == 1:
            (tmp_path / "run.tgz").touch()

    follow([str(tmp_path / "run.tgz")], judge, lambda a: None, idle_s=60, sleep=touch)
    assert judged == 2
    assert [path.exists() for path in kept] == [False, True]


def test_inputs_past_the_limit_are_judged_once_more_and_not_again(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("a\n")
    judged: list[int] = []
    said: list[str] = []

    def grow(seconds: float) -> None:
        if log.stat().st_size > 20_000:
            raise KeyboardInterrupt
        with log.open("a") as file:
            file.write("x" * 999 + "\n")

    def judge() -> tuple[Analysis, Run]:
        judged.append(log.stat().st_size)
        run = api.load(log)
        return api.analyze(run), run

    last = follow([str(log)], judge, lambda a: None, sleep=grow, most_bytes=5_000, warn=said.append)
    assert last is not None
    assert judged == [2, 1002, 2002, 3002, 4002, 5002]
    assert len(said) == 1
    assert "follow-mib" in said[0]


def test_of_large_inputs_one_run_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts the runs that are alive whenever a new one is made."""
    monkeypatch.setattr("nccl_insight.cli.following._TWICE_BYTES", 10)
    log = tmp_path / "run.log"
    log.write_text("line of a log\n")
    made: list[weakref.ref[Run]] = []
    counts: list[int] = []

    def grow(seconds: float) -> None:
        if len(counts) == 4:
            raise KeyboardInterrupt
        with log.open("a") as file:
            file.write("one more\n")

    def judge() -> tuple[Analysis, Run]:
        gc.collect()
        counts.append(sum(ref() is not None for ref in made))
        run = api.load(log)
        made.append(weakref.ref(run))
        return api.analyze(run), run

    assert follow([str(log)], judge, lambda a: None, sleep=grow) is not None
    assert counts == [0, 0, 0, 0]


def test_a_log_in_mid_init_is_running(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("".join(TINY_SHM.read_text().splitlines(keepends=True)[:20]))
    told: list[Analysis] = []

    def judge() -> tuple[Analysis, Run]:
        run = api.load(log)
        return api.analyze(run), run

    def twice(seconds: float) -> None:
        if told:
            raise KeyboardInterrupt

    last = follow([str(log)], judge, told.append, sleep=twice)
    assert last is not None
    assert [a.status for a in (*told, last[0])] == ["running", "running"]
    assert "last line" in told[0].headline
    assert told[0].verdict == "RUNNING"
