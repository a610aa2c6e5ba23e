"""A growing log is judged again; the verdict is told when the findings change."""

from __future__ import annotations

from pathlib import Path

import pytest

from nccl_insight import api
from nccl_insight.cli.following import follow
from nccl_insight.errors import UsageError
from nccl_insight.model import Analysis
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
