"""Progress on standard error, and the first loud line, found long before all is read and judged: only on a terminal,
only when the command takes about a second, gone before anything is printed."""

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from nccl_insight.inputs import temporary
from nccl_insight.inputs.spool import STDIN
from nccl_insight.inputs.stream import Stream, compression_of
from nccl_insight.report.sanitize import one_line

_AFTER_S: Final = 0.6
_RATE_AFTER_S: Final = 3.0
_RATE_FROM: Final = 10_000_000
_EVERY_S: Final = 0.25
_GROWN_S: Final = 0.02
_MOST: Final = 99
# Levels of NCCL that report trouble, and torch's watchdog.
_LOUD: Final = (b" NCCL WARN ", b" NCCL ERROR ", b"Watchdog caught collective operation timeout")
_BLOCK: Final = 8 << 20


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
    terminal, with ``quiet``, or in CI; nothing is shown at first either.
    """
    if quiet or os.environ.get("CI") or os.environ.get("TERM") == "dumb" or not sys.stderr.isatty():
        yield None
        return
    done, tasks = threading.Event(), Tasks()
    search = Search(list(paths), done)
    worker = threading.Thread(target=_show, args=(done.wait, list(paths), tasks, search), daemon=True)
    search.start()
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


class Search(threading.Thread):
    """Looks for the first loud line of the inputs, in their order, from the first moment on until it is found.

    ``found``: ``run.log:1,234: <text>``, empty until then. ``looked``: bytes that it read from files. Compressed files
    are inflated once more; who reads from a pipe takes from it, so the copy is looked at that is made of it.
    """

    def __init__(self, paths: Sequence[str], done: threading.Event) -> None:
        super().__init__(daemon=True)
        self.found, self.looked = "", 0
        self._paths, self._done = paths, done

    def run(self) -> None:
        """Searches, as long as the command does not end."""
        for path, name in self._sources():
            number, held = 1, b""
            with contextlib.suppress(OSError, ImportError), path.open("rb") as raw:
                head = raw.read(_BLOCK >> 10)
                packed = compression_of(head)
                if packed in ("xz", "bzip2") or (b"\0" in head and not packed):  # slow to inflate, or no log
                    continue
                stream = Stream(path, packed)
                while not self._done.is_set():
                    data = stream.read(_BLOCK)
                    if not data and name != str(path) and not self._done.wait(_GROWN_S):
                        continue
                    self.looked = (_read_so_far("thread-self") or 0) if packed else self.looked + len(data)
                    block = held + data
                    end = block.rfind(b"\n") + 1 if data and len(held) < _BLOCK else len(block)
                    if found := [at for sign in _LOUD if (at := block.find(sign, 0, end)) >= 0]:
                        first = block.rfind(b"\n", 0, min(found)) + 1
                        text = block[first:end].split(b"\n", 1)[0].decode("utf-8", "replace")
                        self.found = one_line(f"{name}:{number + block[:first].count(10):,}: {text}")
                    if not data or self.found:
                        break
                    number, held = number + block.count(b"\n", 0, end), block[end:]
            if self.found or self._done.is_set():
                return

    def _sources(self) -> Iterator[tuple[Path, str]]:
        yield from ((Path(path), str(Path(path))) for path in _files(self._paths))
        for path in (path for path in self._paths if path == "-" or Path(path).is_fifo()):
            while not (made := temporary.copies()) and not self._done.wait(_GROWN_S):
                pass
            yield from ((copy, STDIN if path == "-" else path) for copy in made)


def _show(
    wait: Callable[[float], bool], paths: list[str], tasks: Tasks | None = None, search: Search | None = None
) -> None:
    begun, before = time.monotonic(), _read_so_far()
    if wait(_AFTER_S):
        return
    size = _size(paths)
    while True:
        now, loud, looked = _read_so_far(), search.found if search else "", search.looked if search else 0
        read = None if now is None or before is None else max(0, now - before - looked)
        seconds, counts = time.monotonic() - begun, tasks.counts() if tasks else None
        said = line(size, read, seconds) if counts is None else tasks_line(*counts, seconds)
        shown = f"{said}; {loud}"[: shutil.get_terminal_size().columns - 1] if loud else said
        sys.stderr.write("\r\x1b[K" + shown)
        sys.stderr.flush()
        if wait(_EVERY_S):
            break
    sys.stderr.write("\r\x1b[K")
    sys.stderr.flush()


def _read_so_far(whose: str = "self") -> int | None:
    """Bytes that this process, or ``thread-self``, has read from files, by Linux' own count."""
    try:
        first = Path(f"/proc/{whose}/io").read_text(encoding="ascii").splitlines()[0]
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
