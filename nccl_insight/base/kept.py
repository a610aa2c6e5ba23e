"""What takes long to make and is the same at every start, kept beside Python's bytecode of this package.

A file is written where and when Python would write bytecode (``PYTHONDONTWRITEBYTECODE``, ``PYTHONPYCACHEPREFIX``), in
Python's own form of it, so who may write there could change the program itself. It is of use only with the key that it
was written with. One that cannot be read or written costs time, nothing else.
"""

import contextlib
import importlib.util
import marshal
import os
import sys
from collections.abc import Callable, Iterable
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
    """Where that is kept, for this version of Python."""
    return Path(importlib.util.cache_from_source(str(Path(__file__).with_name(f"{name}.py")))).with_suffix(".kept")


def read(name: str, key: str) -> Any:
    """What was kept with that key, or None."""
    try:
        written, value = marshal.loads(place(name).read_bytes())
    except (OSError, ValueError, EOFError, TypeError):
        return None
    return value if written == key else None


def write(name: str, key: str, value: Any) -> None:
    """Keeps a value, whole or not at all."""
    if sys.dont_write_bytecode:
        return
    path = place(name)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.write_bytes(marshal.dumps((key, value)))
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
