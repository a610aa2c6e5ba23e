"""Writing results so that nothing is lost: whole or not at all, never over an input, devices never replaced."""

import contextlib
import errno
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Final

from nccl_insight.base.errors import UsageError

# Files that a process holds open, by the names that the system gives them: written where they stand.
_OPEN: Final = re.compile(r"/dev/(?:std(?:in|out|err)|fd/[0-9]+)|/proc/[^/]+/(?:task/[0-9]+/)?fd/[0-9]+")
_LINKS_MOST: Final = 40


def _identity(path: str | os.PathLike[str] | int) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _regular(path: str | os.PathLike[str]) -> bool:
    """Whether a result may replace what is there: a regular file, or nothing yet."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        # "missing/../run.log" leads nowhere, and not to run.log.
        if os.path.lexists(os.path.realpath(path)):
            raise
        return True
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a directory", os.fspath(path))
    return stat.S_ISREG(mode) and not _open_file(os.fspath(path))


def _open_file(path: str) -> bool:
    """Whether a path is a name of a file that a process holds open, such as /dev/stdout, or a link to one."""
    for _ in range(_LINKS_MOST):
        if _OPEN.fullmatch(re.sub("/+", "/", path)):
            return True
        try:
            path = os.path.join(os.path.dirname(path), os.readlink(path))
        except OSError:
            return False
    return False


class Outputs:
    """The files that a command will write, checked before the work: no input among them, none twice."""

    def __init__(self, inputs: Iterable[str | os.PathLike[str] | int] = ()) -> None:
        self._inputs = {found for p in inputs if (found := _identity(p))}
        self._claimed: set[object] = set()

    def claim(self, target: str | os.PathLike[str]) -> None:
        """Takes note of an output.

        Raises:
            UsageError: it is one of the inputs, another output, a directory, or in a directory that does not exist.
        """
        name = os.fspath(target)
        found = _identity(name)
        # A terminal may be standard input and output at once.
        if found in self._inputs and not stat.S_ISCHR(os.stat(name).st_mode):
            raise UsageError(f"{name}: is an input of this command and would be overwritten; name another file")
        key: object = found or os.path.realpath(name)
        try:
            regular = _regular(name)
        except OSError as error:
            raise UsageError(f"{name}: cannot be written ({error.strerror})") from error
        if regular and key in self._claimed:
            raise UsageError(f"{name}: two outputs would go to this file; name another one")
        if regular and not os.path.isdir(os.path.dirname(os.path.realpath(name))):
            raise UsageError(f"{name}: cannot be written (its directory does not exist)")
        self._claimed.add(key)


@contextlib.contextmanager
def writing(target: str | os.PathLike[str], private: bool = False) -> Iterator[IO[bytes]]:
    """A file to write to, which gets its name when all is written; devices and pipes are written directly.

    A link is followed, the umask kept, and the mode of an existing file. ``private``: readable for its owner alone.

    Raises:
        UsageError: it cannot be written, for example because the disk is full. The old file is then as it was.
    """
    try:
        if not _regular(target):
            with _device(target) as out:
                yield out
            return
        path = Path(os.path.realpath(target))
        with _temporary(path, private) as (part, out):
            yield out
            out.flush()
            os.fsync(out.fileno())
            os.replace(part, path)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise UsageError(f"{os.fspath(target)}: cannot be written ({error.strerror or error})") from error


@contextlib.contextmanager
def _temporary(path: Path, private: bool) -> Iterator[tuple[Path, IO[bytes]]]:
    """A new file beside the path that goes again unless it was given the path's name."""
    short = path.name.encode("utf-8", "surrogateescape")[:200].decode("utf-8", "ignore")
    part = path.with_name(f".{short}.{os.urandom(6).hex()}.part")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 if private else 0o666)
    try:
        with os.fdopen(handle, "wb") as out:
            if not private and path.exists():
                os.fchmod(handle, stat.S_IMODE(path.stat().st_mode))
            yield part, out
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def _device(target: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A device or pipe opened as it is. A named pipe that nobody reads is an error, not a wait without end."""
    try:
        handle = os.open(target, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(error.errno, "nobody reads from this pipe or socket") from error
        raise
    os.set_blocking(handle, True)
    with os.fdopen(handle, "wb") as out:
        yield out


def _outside(part: Path, failed: object) -> str:
    """The file that failed; empty where it is the temporary directory, whose name says nothing to anybody."""
    name = str(failed or "")
    return "" if part.name in name else name


@contextlib.contextmanager
def writing_directory(target: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str]] = ()) -> Iterator[Path]:
    """A directory to fill, which appears under its name when all is written.

    Into a directory that exists the files are moved at the end, each whole; others there are left alone.

    Raises:
        UsageError: it cannot be written, or a file would replace one of ``inputs`` or something that is no file.
    """
    path = Path(os.path.realpath(target))
    made: list[Path] = []
    part = path.parent / f".{path.name[:100]}.{os.urandom(6).hex()}.part"
    try:
        if path.exists() and not path.is_dir():
            raise UsageError(f"{os.fspath(target)}: is a file; name a directory")
        for parent in reversed([p for p in path.parents if not p.exists()]):
            parent.mkdir()
            made.append(parent)
        part = (path if path.is_dir() else path.parent) / part.name
        part.mkdir()
        yield part
        if path.is_dir():
            _move_into(part, path, inputs)
        else:
            os.rename(part, path)
        made.clear()
    except OSError as error:
        raise UsageError(
            f"{_outside(part, error.filename) or os.fspath(target)}: cannot be written ({error.strerror or error})"
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
        for parent in reversed(made):
            with contextlib.suppress(OSError):
                parent.rmdir()


def _move_into(part: Path, path: Path, inputs: Iterable[str | os.PathLike[str]]) -> None:
    protected = {_identity(p) for p in inputs} - {None}
    moves = [(new, path / new.relative_to(part)) for new in sorted(part.rglob("*")) if not new.is_dir()]
    for _, old in moves:
        if _identity(old) in protected:
            raise UsageError(f"{old}: is an input of this command and would be overwritten; name another directory")
        if not _regular(old):
            raise UsageError(f"{old}: is no regular file and is not replaced; name another directory")
    for new, old in moves:
        old.parent.mkdir(parents=True, exist_ok=True)
        os.replace(new, old)
