"""Progress on standard error, and the first loud line, found long before all is read and judged: only on a terminal,
only after a second, gone before anything is printed."""

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from nccl_insight.report.sanitize import one_line

_AFTER_S: Final = 1.0
_RATE_AFTER_S: Final = 3.0
_RATE_FROM: Final = 10_000_000
_EVERY_S: Final = 0.25
_MOST: Final = 99
# Levels of NCCL that report trouble, and torch's watchdog.
_LOUD: Final = (b" NCCL WARN ", b" NCCL ERROR ", b"Watchdog caught collective operation timeout")
_BLOCK: Final = 1 << 20


class Tasks:
    """Counts of the tasks that read elsewhere; called with who counts them, and with None at their end."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._count: Callable[[], tuple[int, int]] | None = None

    def __call__(self, count: Callable[[], tuple[int, int]] | None) -> None:
        with self._guard:
            self._count = count

    def counts(self) -> tuple[int, int] | None:
        """Done and begun, None while there are no tasks."""
        with self._guard:
            try:
                return self._count() if self._count is not None else None
            except Exception:  # a cluster that goes away is told by who reads, not by a line of progress
                return None


@contextlib.contextmanager
def progress(paths: Sequence[str], *, quiet: bool = False) -> Iterator[Tasks | None]:
    """Tells during the block how much of the inputs was read, where the system counts that, and for how long.

    Gives what to tell of tasks that read elsewhere. Nothing is shown, and None given, where standard error is no
    terminal, with ``quiet``, or in CI; before a second has passed nothing is shown either.
    """
    if quiet or os.environ.get("CI") or os.environ.get("TERM") == "dumb" or not sys.stderr.isatty():
        yield None
        return
    done, tasks = threading.Event(), Tasks()
    worker = threading.Thread(target=_show, args=(done.wait, list(paths), tasks), daemon=True)
    worker.start()
    try:
        yield tasks
    finally:
        done.set()
        worker.join()


def line(size_bytes: int, read_bytes: int | None, seconds: float) -> str:
    """``reading 60 MB: 43%, 3 s, 8 MB/s, 5 s left``; without a share where the system does not count what was read."""
    if not size_bytes or read_bytes is None:
        return f"reading, {seconds:.0f} s"
    share = min(_MOST, 100 * read_bytes // size_bytes)
    verb = "judging" if share >= _MOST else "reading"
    size = f"{size_bytes / 1e6:,.0f} MB" if size_bytes >= 1e6 else f"{size_bytes / 1e3:,.0f} kB"
    told = f"{verb} {size}: {share}%, {seconds:.0f} s"
    if verb == "judging" or not share or seconds < _RATE_AFTER_S or size_bytes < _RATE_FROM:
        return told
    rate = read_bytes / seconds
    return f"{told}, {rate / 1e6:,.0f} MB/s, {(size_bytes - read_bytes) / rate:.0f} s left"


def tasks_line(done: int, begun: int, seconds: float) -> str:
    """``reading on Ray: 12 of 40 tasks, 3 s``."""
    return f"reading on Ray: {done:,} of {begun:,} tasks, {seconds:.0f} s"


def first_loud(paths: Sequence[str], ended: Callable[[], bool]) -> tuple[str, int]:
    """``run.log:1,234: <text>`` of the first loud line in the files, in their order, and how many bytes were read to
    find it; empty where none was found until the search is ended. Only regular files are looked at: who reads from a
    pipe takes from it."""
    looked = 0
    for path in _files(paths):
        number = 1
        with contextlib.suppress(OSError), open(path, "rb") as file:
            while not ended() and (block := file.read(_BLOCK) + file.readline(_BLOCK)):
                looked += len(block)
                if found := [at for sign in _LOUD if (at := block.find(sign)) >= 0]:
                    before = block[: min(found)].split(b"\n")
                    text = before[-1] + block[min(found) :].split(b"\n", 1)[0]
                    return one_line(f"{path}:{number + len(before) - 1:,}: {text.decode('utf-8', 'replace')}"), looked
                number += block.count(b"\n")
    return "", looked


def _show(wait: Callable[[float], bool], paths: list[str], tasks: Tasks | None = None) -> None:
    begun, before = time.monotonic(), _read_so_far()
    if wait(_AFTER_S):
        return
    size = _size(paths)
    loud, looked = first_loud(paths, lambda: wait(0) or time.monotonic() - begun > 2 * _AFTER_S)
    while True:
        now = _read_so_far()
        read = None if now is None or before is None else now - before - looked
        seconds, counts = time.monotonic() - begun, tasks.counts() if tasks else None
        said = line(size, read, seconds) if counts is None else tasks_line(*counts, seconds)
        shown = f"{said}; {loud}"[: shutil.get_terminal_size().columns - 1] if loud else said
        sys.stderr.write("\r\x1b[K" + shown)
        sys.stderr.flush()
        if wait(_EVERY_S):
            break
    sys.stderr.write("\r\x1b[K")
    sys.stderr.flush()


def _read_so_far() -> int | None:
    """Bytes that this process has read from files, by Linux' own count."""
    try:
        first = Path("/proc/self/io").read_text(encoding="ascii").splitlines()[0]
        return int(first.removeprefix("rchar:"))
    except (OSError, ValueError, IndexError):
        return None


def _files(paths: Sequence[str]) -> Iterator[str]:
    """The named files and those below the named directories."""
    for path in paths:
        below = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in sorted(names))
        yield from filter(os.path.isfile, below if os.path.isdir(path) else [path])


def _size(paths: Sequence[str]) -> int:
    total = 0
    for path in _files(paths):
        with contextlib.suppress(OSError):
            total += os.path.getsize(path)
    return total
