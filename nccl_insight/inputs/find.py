"""Finding inputs: files, directories, globs, archives, ``-`` and pipes become a numbered list, once."""

from __future__ import annotations

import contextlib
import glob
import os
import select
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Final

from nccl_insight.errors import NotJudgedError, UsageError
from nccl_insight.inputs import temporary
from nccl_insight.inputs.archive import Budget, is_archive, is_bundle, is_zip, unpack
from nccl_insight.inputs.limits import DEFAULT, Limits
from nccl_insight.inputs.stream import Stream, compression_of

HEAD_BYTES = 64 * 1024
STDIN: Final = "<stdin>"
NSYS_TEXTS: Final = "StringIds.parquet"
"""The file that stands for a parquet directory of Nsight Systems; other parquet files of directories are no inputs."""
_SMALL_BYTES = 16 * 1024 * 1024
_SMALL_PACKED_BYTES = 256 * 1024
_COPY_BYTES: Final = 1 << 20
_WAIT_MS: Final = 200
_SKIPPED_SUFFIXES = frozenset(
    {
        ".pyc", ".so", ".html", ".png", ".jpg", ".svg", ".pdf", ".py", ".md", ".toml", ".pt", ".pth", ".safetensors",
        ".whl", ".jar", ".npz", ".npy", ".parquet",
    }
)  # fmt: skip
# Zips hold anything; within a directory only those are opened that say that they are one.
_ZIP_SUFFIX: Final = ".zip"


@dataclass(frozen=True)
class InputFile:
    """One input: what is read is the same for every reader, for evidence, redaction and bundles.

    Attributes:
        input_id: number within the run.
        path: where the bytes are; a temporary copy for pipes and files of archives.
        display: the name shown to the user, printable whatever the bytes of the file's name.
        size_bytes: size as it lies on disk.
        compression: ``gzip``, ``zstd``, ``xz``, ``bzip2`` or nothing.
        origin: the file that the user named or that a directory held; None for standard input and pipes.
        damage: what is known to be wrong before anything was read.
        limits: how much of it is read.
        communication: regular expressions of kernel names that count as communication, beside those that are known.
    """

    input_id: int
    path: Path
    display: str
    size_bytes: int
    compression: str = ""
    origin: Path | None = None
    damage: str = ""
    limits: Limits = field(default=DEFAULT, repr=False)
    communication: tuple[str, ...] = field(default=(), repr=False)

    @property
    def small(self) -> bool:
        """Whether it is better read together with others than in chunks of its own."""
        return self.size_bytes <= (_SMALL_PACKED_BYTES if self.compression else _SMALL_BYTES)

    @property
    def temporary(self) -> bool:
        """Whether the bytes are a copy that only this process has."""
        return self.origin is None or self.path != self.origin

    def open(self) -> Stream:
        """The decompressed bytes. Reading never raises; ``damage`` of the stream tells what was wrong."""
        return Stream(self.path, self.compression, self.limits, self.damage)

    def head(self) -> bytes:
        """The first 64 KiB, decompressed; empty when nothing can be read."""
        with self.open() as stream:
            return stream.read(HEAD_BYTES)


@dataclass(frozen=True)
class _Found:
    path: Path
    display: str
    origin: Path | None
    damage: str = ""


def shown(name: str | os.PathLike[str]) -> str:
    """A file name as text that can be printed and stored: bytes that are not UTF-8 become escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _hidden(parts: Iterable[str]) -> bool:
    return any(part.startswith(".") for part in parts)


def _walk(top: Path) -> Iterator[Path]:
    """Files below a directory in order, hidden ones left out; links to directories are not followed."""
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(n for n in folders if not n.startswith("."))
        for name in names:
            if not name.startswith("."):
                yield Path(folder, name)


def _listed(argument: str) -> Iterator[tuple[Path, bool]]:
    """Files that an argument names, archives unopened, and whether a directory gave them."""
    path = Path(argument)
    if path.is_dir():
        for child in sorted(_walk(path)):
            if (
                child.suffix.lower() not in _SKIPPED_SUFFIXES or child.name == NSYS_TEXTS
            ) and child.is_file():
                yield child, True
        return
    if os.path.lexists(path):
        yield path, False
        return
    matches = sorted(glob.glob(argument, recursive=True)) if glob.has_magic(argument) else []
    if not matches:
        raise UsageError(f"{shown(argument)}: no such file or directory")
    for match in matches:
        if Path(match).is_dir():
            yield from _listed(match)
        else:
            yield Path(match), False


def _opened(
    found: _Found, within: bool, limits: Limits, depth: int = 1, budget: Budget | None = None
) -> Iterator[_Found]:
    """The file itself, or the files of the archive that it is. ``within``: a directory or an archive gave it."""
    if found.damage or not is_archive(found.path):
        yield found
        return
    if within and is_zip(found.path):
        if found.path.suffix.lower() != _ZIP_SUFFIX:
            yield found
            return
        if depth == 1 and is_bundle(found.path):
            return  # a bundle beside its logs holds them once more
    if depth > limits.archive_depth:
        note = f"an archive within {limits.archive_depth} others (limit archive-depth); it was not opened"
        yield _Found(_nothing(), found.display, found.origin, note)
        return
    budget = budget or Budget(limits, found.path.stat().st_size)
    for member in unpack(found.path, budget):
        inside = PurePosixPath(member.name)
        if member.name and (_hidden(inside.parts) or inside.suffix.lower() in _SKIPPED_SUFFIXES):
            temporary.discard(member.path)
            continue
        display = f"{found.display}/{shown(member.name)}" if member.name else found.display
        inner = _Found(member.path, display, found.origin, member.damage)
        yield from _opened(inner, True, limits, depth + 1, budget)
    if found.path != found.origin:
        temporary.discard(found.path)


def _nothing() -> Path:
    path = temporary.place("nothing")
    path.touch()
    return path


def _arriving(stream: IO[bytes]) -> Callable[[int], bytes]:
    """Reads at most so many bytes as soon as there are some; Ctrl-C ends the wait.

    polars takes SIGINT with a handler that lets a waiting ``read`` go on, so the wait must not be in ``read``: ``poll``
    never goes on by itself.
    """
    try:
        handle = stream.fileno()
    except (OSError, ValueError, AttributeError):
        return stream.read
    waiter = select.poll()
    waiter.register(handle, select.POLLIN | select.POLLHUP)
    # What the stream's own buffer holds is not seen by poll; nothing was read from it before.
    first = getattr(stream, "read1", stream.read)

    def read(size: int) -> bytes:
        while not waiter.poll(_WAIT_MS):
            pass
        data: bytes = first(size)
        return data

    return read


def _spool(stream: IO[bytes], display: str, limits: Limits) -> _Found:
    """What can be read only once copied to a temporary file, so that evidence can be read back."""
    read = _arriving(stream)
    path = temporary.place("input")
    left = limits.spool_mib << 20
    damage = ""
    try:
        with path.open("wb") as out:
            while block := read(min(_COPY_BYTES, left + 1)):
                out.write(block[:left])
                left -= len(block)
                if left < 0:
                    damage = f"it gives more than {limits.spool_mib:,} MiB (limit spool-mib); the rest was not read"
                    break
    except OSError as error:
        temporary.discard(path)
        raise UsageError(
            f"{display}: cannot be copied to {path.parent} ({error.strerror or error})"
        ) from error
    return _Found(path, display, None, damage)


def _standard_input(limits: Limits) -> _Found:
    if sys.stdin is None:
        raise UsageError("standard input is closed")
    return _spool(sys.stdin.buffer, STDIN, limits)


def _from_pipe(path: Path, display: str, limits: Limits) -> _Found:
    """A pipe, once somebody writes to it: ``<(zcat run.log.gz)`` of a shell, or a named one."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        waiter = select.poll()
        waiter.register(handle, select.POLLIN | select.POLLHUP)
        deadline = time.monotonic() + limits.pipe_wait_s
        while not waiter.poll(_WAIT_MS):
            if time.monotonic() > deadline:
                raise UsageError(
                    f"{display}: nobody wrote to this pipe for {limits.pipe_wait_s} s (limit pipe-wait-s)"
                )
        os.set_blocking(handle, True)
        return _spool(stream, display, limits)


def _readable(path: Path, display: str, limits: Limits) -> _Found:
    """A file as it is, a pipe as a copy.

    Raises:
        UsageError: it is a device or a socket, or cannot be read.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            with path.open("rb"):
                return _Found(path, display, path)
        if stat.S_ISFIFO(mode):
            return _from_pipe(path, display, limits)
        if stat.S_ISCHR(mode) and path.stat().st_rdev == os.stat(os.devnull).st_rdev:
            return _Found(_nothing(), display, None)
        if stat.S_ISCHR(mode):
            with path.open("rb") as stream:
                if stream.isatty():
                    return _spool(stream, display, limits)
    except OSError as error:
        raise UsageError(f"{display}: cannot be read ({error.strerror or error})") from error
    raise UsageError(f"{display}: is a device or a socket, not a file or a pipe")


def _expand(argument: str, limits: Limits) -> Iterator[_Found]:
    if argument == "-":
        yield from _opened(_standard_input(limits), False, limits)
        return
    for path, within in _listed(argument):
        try:
            found = _readable(path, shown(path), limits)
        except UsageError as error:
            if not within:
                raise
            found = _Found(_nothing(), shown(path), path, str(error).partition(": ")[2])
        yield from _opened(found, within, limits)


def find_inputs(
    arguments: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], limits: Limits = DEFAULT
) -> list[InputFile]:
    """The inputs that the arguments name, numbered in order; a directory is one run of many files.

    Pipes and standard input are copied and archives unpacked, so call it once a run.

    Raises:
        UsageError: a path does not exist or cannot be read.
        NotJudgedError: the arguments name no file.
    """
    if isinstance(arguments, (str, os.PathLike)):
        arguments = [arguments]
    inputs: list[InputFile] = []
    seen: set[tuple[int, int]] = set()
    for argument in arguments:
        for found in _expand(os.fspath(argument), limits):
            status = found.path.stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            with found.path.open("rb") as raw:
                packed = compression_of(raw.read(8))
            damage = found.damage
            if len(inputs) + 1 == limits.files:
                damage = f"there are more inputs than {limits.files:,} (limit files); the rest was not read"
            inputs.append(
                InputFile(
                    len(inputs),
                    found.path,
                    found.display,
                    status.st_size,
                    packed,
                    found.origin,
                    damage,
                    limits,
                )
            )
            if len(inputs) == limits.files:
                return inputs
    if not inputs:
        raise NotJudgedError("no input files found; name a log, a trace or a directory that holds them")
    return inputs


def watched(arguments: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Identity, size and time of every file that the arguments name, without opening any: tells what changed."""
    found: dict[str, tuple[int, ...]] = {}
    for argument in arguments:
        with contextlib.suppress(UsageError):
            for path, _ in _listed(argument):
                with contextlib.suppress(OSError):
                    status = path.stat()
                    found[str(path)] = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    return found


def piped(arguments: Iterable[str]) -> bool:
    """Whether one of the arguments is a pipe, a device or a socket."""
    return any(Path(a).exists() and not Path(a).is_file() and not Path(a).is_dir() for a in arguments)


def discard(inputs: Iterable[InputFile]) -> None:
    """Removes the temporary copies of a run that is not needed any more."""
    for file in inputs:
        if file.temporary:
            temporary.discard(file.path)
