"""Progress on standard error."""

from __future__ import annotations

import gzip
import io
import lzma
import sys
import threading
from pathlib import Path

import pytest

from nccl_insight.cli import progress
from nccl_insight.inputs import temporary
from nccl_insight.inputs.limits import DEFAULT
from nccl_insight.inputs.spool import STDIN, spool
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
    log = tmp_path / "big.log"
    quiet = "node1:7:7 [0] NCCL INFO Using network IB\n" * 60_000
    log.write_text(f"{quiet}node1:7:7 [0] misc/socket.cc:9 NCCL WARN a\x1b[31mloud\tone\nnode2:8:8 [0] NCCL WARN two\n")
    assert _loud(tmp_path / "missing", tmp_path) == f"{log}:60,001: node1:7:7 [0] misc/socket.cc:9 NCCL WARN aloud one"
    packed, slow = tmp_path / "packed", tmp_path / "slow"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    slow.write_bytes(lzma.compress(log.read_bytes()))
    assert _loud(slow, packed).startswith(f"{packed}:60,001: node1:7:7 [0] misc/socket.cc:9 NCCL WARN ")
    warned = _loud(TINY_SHM)
    assert ":114: [2026-11-20 23:41:09] node00:10303:10322 [3] misc/shmutils.cc:87 NCCL WARN Error: failed" in warned
    binary = tmp_path / "binary"
    binary.write_bytes(b"\0 NCCL WARN of a database\n")
    assert _loud(binary) == ""
    monkeypatch.setattr(progress, "_BLOCK", 64)
    log.write_text("first\n" * 8 + "node2:8:8 [0] NCCL WARN cut into many blocks\nlast\n")
    assert _loud(log) == f"{log}:9: node2:8:8 [0] NCCL WARN cut into many blocks"
    monkeypatch.undo()
    done = threading.Event()
    done.set()
    ended = progress.Search([str(log)], done)
    ended.run()
    assert (ended.found, ended.looked) == ("", 0)
    log.write_text(quiet)
    assert _loud(log) == ""
    log.write_text(f"{quiet}node2:8:8 [0] NCCL WARN aloud one, and so on for long")
    waits = iter([False, False, True])
    monkeypatch.setenv("COLUMNS", "400")
    search = progress.Search([str(log)], threading.Event())
    search.run()
    progress._show(lambda seconds: next(waits) if seconds else False, [str(log)], search=search)
    assert capsys.readouterr().err.count("NCCL WARN aloud one") == 2
    waits = iter([False, True])
    monkeypatch.setenv("COLUMNS", "40")
    progress._show(lambda seconds: next(waits) if seconds else False, [str(log)], search=search)
    shown = capsys.readouterr().err.split("\x1b[K")
    assert max(map(len, shown)) <= 40


def test_the_first_loud_line_of_standard_input_is_found_in_the_copy_of_it() -> None:
    class Written(io.BytesIO):
        """Standard input that gives its loud line once the search has begun."""

        def read(self, size: int | None = -1) -> bytes:
            if not search.is_alive():
                search.start()
            return super().read(size)

    temporary.clear()
    search = progress.Search(["-"], threading.Event())
    copy = spool(Written(b"quiet\n" * 9 + b"node2:8:8 [0] NCCL WARN two\n"), STDIN, DEFAULT)
    search.join(timeout=60)
    temporary.discard(copy.path)
    assert search.found == f"{STDIN}:10: node2:8:8 [0] NCCL WARN two"


def _loud(*paths: Path) -> str:
    search = progress.Search([str(path) for path in paths], threading.Event())
    search.run()
    return search.found
