"""Progress on standard error."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import pytest

from nccl_insight.cli import progress
from tests.runs import TINY_SHM


def test_progress_needs_a_terminal_and_says_the_share(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with progress.progress([str(TINY_SHM)]):
        pass
    assert capsys.readouterr().err == ""
    assert progress.line(60_000_000, 25_800_000, 3.4) == "reading 60 MB: 43%, 3 s, 8 MB/s, 5 s left"
    assert progress.line(60_000_000, 25_800_000, 1.2) == "reading 60 MB: 43%, 1 s"
    assert progress.line(60_000_000, 99_000_000, 9.0) == "judging 60 MB: 99%, 9 s"
    assert progress.line(51_200, 20_000, 1.2) == "reading 51 kB: 39%, 1 s"
    assert progress.line(0, None, 2.0) == "reading, 2 s"
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress.progress([str(TINY_SHM)], quiet=True):
        pass
    assert capsys.readouterr().err == ""
    waits = iter([False, False, True])
    progress._show(lambda seconds: next(waits) if seconds else False, [str(TINY_SHM)])
    shown = capsys.readouterr().err
    assert shown.count(" kB: ") == 2
    assert "0 MB" not in shown
    assert shown.endswith("\r\x1b[K")


def test_the_first_loud_line_is_shown_while_a_large_log_is_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log, pipe = tmp_path / "big.log", tmp_path / "pipe"
    quiet = "node1:7:7 [0] NCCL INFO Using network IB\n" * 60_000
    log.write_text(f"{quiet}node1:7:7 [0] misc/socket.cc:9 NCCL WARN a\x1b[31mloud\tone\nnode2:8:8 [0] NCCL WARN two\n")
    os.mkfifo(pipe)
    found, looked = progress.first_loud([str(pipe), str(tmp_path / "missing"), str(tmp_path)], lambda: False)
    assert found == f"{log}:60,001: node1:7:7 [0] misc/socket.cc:9 NCCL WARN aloud one"
    assert looked == log.stat().st_size
    assert progress.first_loud([str(log)], lambda: True) == ("", 0)
    warned, _ = progress.first_loud([str(TINY_SHM)], lambda: False)
    assert ":114: [2026-11-20 23:41:09] node00:10303:10322 [3] misc/shmutils.cc:87 NCCL WARN Error: failed" in warned
    log.write_text(quiet)
    assert progress.first_loud([str(log)], lambda: False) == ("", len(quiet))
    log.write_text(f"{quiet}node2:8:8 [0] NCCL WARN aloud one, and so on for long")
    waits = iter([False, False, True])
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setattr(progress, "_AFTER_S", math.inf)
    progress._show(lambda seconds: next(waits) if seconds else False, [str(log)])
    assert capsys.readouterr().err.count("NCCL WARN aloud one") == 2
    waits = iter([False, True])
    monkeypatch.setenv("COLUMNS", "40")
    progress._show(lambda seconds: next(waits) if seconds else False, [str(log)])
    shown = capsys.readouterr().err.split("\x1b[K")
    assert max(map(len, shown)) <= 40
