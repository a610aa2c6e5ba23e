"""Progress on standard error: only on a terminal, only after a second, gone before anything is printed."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

_AFTER_S: Final = 1.0
_RATE_AFTER_S: Final = 3.0
_RATE_FROM: Final = 10_000_000
_EVERY_S: Final = 0.25
_MOST: Final = 99


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


def _show(wait: Callable[[float], bool], paths: list[str], tasks: Tasks | None = None) -> None:
    begun, before = time.monotonic(), _read_so_far()
    if wait(_AFTER_S):
        return
    size = _size(paths)
    while True:
        now = _read_so_far()
        read = None if now is None or before is None else now - before
        seconds, counts = time.monotonic() - begun, tasks.counts() if tasks else None
        said = line(size, read, seconds) if counts is None else tasks_line(*counts, seconds)
        sys.stderr.write("\r\x1b[K" + said)
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


def _size(paths: list[str]) -> int:
    """Bytes of the named files and of what is below the named directories."""
    total = 0
    for path in paths:
        if os.path.isdir(path):
            for folder, _, names in os.walk(path):
                total += sum(_one(os.path.join(folder, name)) for name in names)
        else:
            total += _one(path)
    return total


def _one(path: str) -> int:
    try:
        return os.path.getsize(path) if os.path.isfile(path) else 0
    except OSError:
        return 0
