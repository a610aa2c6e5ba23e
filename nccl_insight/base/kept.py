"""What takes long to make and is the same at every start, kept beside Python's bytecode of this package.

A file is written where Python would write bytecode (``PYTHONPYCACHEPREFIX``), in Python's own form of it, so who may
write there could change the program itself. Where Python writes none (``PYTHONDONTWRITEBYTECODE``, a package that
belongs to another user), it is written to the user's folder for caches, unless somebody else may write there. It is of
use only with the key that it was written with. One that cannot be read or written costs time, nothing else.
"""

import contextlib
import importlib.util
import marshal
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any


def of_files(name: str, files: Iterable[object], make: Callable[[], Any]) -> Any:
    """What ``make`` gives of these files, in plain types: what an earlier start kept under that name, where none of
    them has changed since (in time or size, as Python knows its bytecode)."""
    try:
        key = repr([(path, (status := os.stat(path)).st_mtime_ns, status.st_size) for path in map(str, files)])
    except OSError:  # within an archive
        return make()
    found = read(name, key)
    if found is None:
        found = make()
        write(name, key, found)
    return found


def place(name: str) -> Path:
    """Where that is kept beside the bytecode, for this version of Python."""
    return Path(importlib.util.cache_from_source(str(Path(__file__).with_name(f"{name}.py")))).with_suffix(".kept")


def own_folder() -> Path | None:
    """The user's folder for it, there or not; None where another user may write to it."""
    home = os.environ.get("HOME")
    folder = Path(os.environ.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else "")) / "nccl-insight"
    if not folder.is_absolute() or not hasattr(os, "geteuid"):
        return None
    try:
        status = folder.stat()
    except OSError:
        return folder
    return folder if status.st_uid == os.geteuid() and not status.st_mode & 0o022 else None


def _places(name: str) -> Iterator[tuple[Path, int]]:
    """Where it may be kept, and the mode of a folder that is made for it; 0 where it is read only.

    It is written to the first that takes it, and so looked for there first.
    """
    beside = place(name)
    written = not sys.dont_write_bytecode and (os.access(beside.parent, os.W_OK) or not beside.parent.exists())
    if written:
        yield beside, 0o777
    if folder := own_folder():
        yield folder / beside.name, 0o700
    if not written:
        yield beside, 0


def read(name: str, key: str) -> Any:
    """What was kept with that key, or None."""
    for path, _ in _places(name):
        with contextlib.suppress(OSError, ValueError, EOFError, TypeError):
            written, value = marshal.loads(path.read_bytes())
            if written == key:
                return value
    return None


def write(name: str, key: str, value: Any) -> None:
    """Keeps a value, whole or not at all."""
    for path, mode in ((path, mode) for path, mode in _places(name) if mode):
        part = path.with_name(f"{path.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=mode, parents=True, exist_ok=True)
            try:
                part.write_bytes(marshal.dumps((key, value)))
                part.replace(path)
                return
            finally:
                part.unlink(missing_ok=True)
