"""One temporary directory per process: copies of pipes, files of archives, inflated databases.

It goes when the process ends, by whatever way that runs Python's exit handlers; the command line turns signals into
such an exit. What a killed process left is removed by the next one: a lock that the system drops with the process
tells whether its owner is alive, also across containers that share the directory.
"""

import atexit
import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import threading
from pathlib import Path
from typing import Final

from nccl_insight.base import late
from nccl_insight.base.errors import UsageError

_PREFIX: Final = "nccl-insight-"
_LOCK: Final = ".nccl-insight.lock"
# What `tempfile.mkdtemp` adds to the prefix, and what a workspace holds: directories with a number for a name.
_OWN_NAME: Final = late.compiled(rf"{_PREFIX}[a-z0-9_]{{8}}")


class _Workspace:
    """The directory of this process, made when it is first needed."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._owner = 0
        self._root: Path | None = None
        self._lock = -1
        self._count = 0

    def place(self, name: str) -> Path:
        """A path that nothing has yet, in a directory of its own."""
        with self._guard:
            if self._root is None or self._owner != os.getpid():
                base = Path(tempfile.gettempdir())
                _sweep(base)
                self._root = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
                self._owner = os.getpid()
                self._lock = os.open(self._root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                atexit.register(self.clear)
            assert self._root is not None
            self._count += 1
            directory = self._root / str(self._count)
            directory.mkdir()
        return directory / name

    def files(self, name: str) -> list[Path]:
        """What stands at the places of that name, in no order."""
        return [] if self._root is None else list(self._root.glob(f"*/{name}"))

    def clear(self) -> None:
        """Removes the directory; only the process that made it does."""
        with self._guard:
            if self._root is not None and self._owner == os.getpid():
                shutil.rmtree(self._root, ignore_errors=True)
                os.close(self._lock)
                self._root = None


def _sweep(base: Path) -> None:
    """Removes directories whose owner is gone."""
    for path in base.glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            if not _is_workspace(path.parent):
                continue
            lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path.parent, ignore_errors=True)
        except OSError:
            pass
        finally:
            os.close(lock)


def _is_workspace(path: Path) -> bool:
    """Whether a directory is one that this module made: by owner, mode, name, and by what it holds. Raises OSError."""
    status = path.lstat()
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.getuid()
        and stat.S_IMODE(status.st_mode) == 0o700
        and _OWN_NAME.fullmatch(path.name) is not None
        and all(item.name == _LOCK or (item.name.isdecimal() and item.is_dir()) for item in path.iterdir())
    )


_WORKSPACE: Final = _Workspace()


def place(name: str = "input") -> Path:
    """A path for a temporary file, in a directory that nobody else uses. The file is the caller's to make.

    Raises UsageError: no temporary directory can be made.
    """
    try:
        return _WORKSPACE.place(name)
    except OSError as error:
        raise UsageError(f"{tempfile.gettempdir()}: no temporary directory can be made ({error.strerror})") from error


def copies() -> list[Path]:
    """Copies of standard input and of pipes, in no order, also those that are still written."""
    return _WORKSPACE.files("input")


def discard(path: Path) -> None:
    """Removes a temporary file before the end of the process."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
        path.parent.rmdir()


def clear() -> None:
    """Removes everything at once; a later :func:`place` starts anew."""
    _WORKSPACE.clear()
