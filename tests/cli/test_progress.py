"""Progress on standard error."""

from __future__ import annotations

import sys

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
    progress._show(lambda _seconds: next(waits), [str(TINY_SHM)])
    shown = capsys.readouterr().err
    assert shown.count(" kB: ") == 2
    assert "0 MB" not in shown
    assert shown.endswith("\r\x1b[K")
