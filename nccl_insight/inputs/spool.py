"""Copies of what can be read only once: standard input, pipes, files behind URLs. Evidence is read back from them."""

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, Final, NamedTuple

from nccl_insight.base.errors import UsageError
from nccl_insight.inputs import temporary
from nccl_insight.inputs.limits import Limits
from nccl_insight.inputs.remote import Remote

STDIN: Final = "<stdin>"
_COPY_BYTES: Final = 1 << 20
_WAIT_MS: Final = 200


class Copy(NamedTuple):
    """A temporary file, and what is missing in it."""

    path: Path
    damage: str


def standard_input(limits: Limits) -> Copy:
    """All of standard input. Raises UsageError."""
    if sys.stdin is None:
        raise UsageError("standard input is closed")
    return spool(sys.stdin.buffer, STDIN, limits)


def from_pipe(path: Path, display: str, limits: Limits) -> Copy:
    """A pipe, once somebody writes to it: ``<(zcat run.log.gz)`` of a shell, or a named one.

    Raises:
        UsageError: nobody writes to it, or the copy cannot be written.
        OSError: it cannot be opened.
    """
    with open_pipe(path, display, limits.pipe_wait_s, " (limit pipe-wait-s)") as stream:
        return spool(stream, display, limits)


@contextmanager
def open_pipe(path: Path, display: str, wait_s: float, hint: str = "") -> Iterator[BinaryIO]:
    """A pipe to read from, once somebody writes to it; opening one that nobody writes to would wait for ever.

    ``hint``: what the message says of the time that was waited. Raises as :func:`from_pipe`.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        waiter = select.poll()
        waiter.register(handle, select.POLLIN | select.POLLHUP)
        deadline = time.monotonic() + wait_s
        while not waiter.poll(_WAIT_MS):
            if time.monotonic() > deadline:
                raise UsageError(f"{display}: nobody wrote to this pipe for {wait_s:g} s{hint}")
        os.set_blocking(handle, True)
        yield stream


def start_of(path: Path, most_bytes: int, wait_s: float = Limits().pipe_wait_s) -> bytes:
    """The first bytes of a file, or of a pipe to which somebody writes in time.

    Raises:
        UsageError: nobody writes to the pipe.
        OSError: it cannot be read.
    """
    with open_pipe(path, str(path), wait_s) if path.is_fifo() else path.open("rb") as stream:
        return stream.read(most_bytes)


def downloaded(file: Remote, most_bytes: int) -> Copy:
    """A copy of a file behind a URL; what a broken transfer gave before it broke is kept. Raises OSError at once."""
    with file.open() as stream:
        path = temporary.place("input" + "".join(PurePosixPath(file.display).suffixes[-2:]))
        damage, left, block = "", most_bytes, b""
        with path.open("wb") as out:
            while True:
                try:
                    block = stream.read1(min(_COPY_BYTES, left + 1))
                except OSError as error:
                    damage = f"the transfer broke off ({error})"
                    break
                out.write(block[:left])
                if not block or len(block) > left:
                    break
                left -= len(block)
    if file.size_bytes is None and len(block) > left:
        damage = f"it gives more than {most_bytes >> 20:,} MiB (limit spool-mib); the rest was not read"
    elif file.size_bytes is not None and left and not damage:
        damage = f"the transfer ended {left:,} bytes before the end"
    return Copy(path, damage)


def spool(stream: IO[bytes], display: str, limits: Limits) -> Copy:
    """What comes through a stream that can be read once. Raises UsageError where the copy cannot be written."""
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
        raise UsageError(f"{display}: cannot be copied to {path.parent} ({error.strerror or error})") from error
    return Copy(path, damage)


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
