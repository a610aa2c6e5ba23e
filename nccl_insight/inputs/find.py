"""Finding inputs and opening them: files, directories, globs, ``-``, with transparent decompression."""

from __future__ import annotations

import glob
import gzip
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, cast

from nccl_insight.errors import NotJudgedError, UsageError
from nccl_insight.inputs.archive import is_archive, unpack

HEAD_BYTES = 64 * 1024
_SMALL_BYTES = 16 * 1024 * 1024
_SMALL_PACKED_BYTES = 256 * 1024
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_SKIPPED_SUFFIXES = (".pyc", ".so", ".html", ".png", ".zip", ".tar", ".py", ".md", ".toml")


@dataclass(frozen=True)
class InputFile:
    """One input. ``display`` is the name shown to the user; ``path`` is where the bytes are."""

    input_id: int
    path: Path
    display: str
    size_bytes: int
    compression: str = ""

    @property
    def small(self) -> bool:
        """Whether it is better read together with others than in chunks of its own."""
        return self.size_bytes <= (_SMALL_PACKED_BYTES if self.compression else _SMALL_BYTES)

    def open(self) -> io.BufferedIOBase:
        """The decompressed bytes. Damaged streams raise EOFError, OSError or ValueError while reading."""
        raw = self.path.open("rb")
        if self.compression == "gzip":
            return gzip.GzipFile(fileobj=raw)
        if self.compression == "zstd":
            import zstandard

            stream = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True, closefd=True)
            return io.BufferedReader(cast(io.RawIOBase, stream), buffer_size=1 << 20)
        return raw

    def head(self) -> bytes:
        """The first 64 KiB, decompressed; empty when nothing can be read."""
        try:
            with self.open() as stream:
                return stream.read(HEAD_BYTES)
        except (OSError, EOFError, ValueError):
            return b""


def _compression(path: Path) -> str:
    with path.open("rb") as raw:
        magic = raw.read(4)
    return "gzip" if magic[:2] == _GZIP else "zstd" if magic == _ZSTD else ""


def _expand(argument: str) -> Iterator[tuple[Path, str]]:
    path = Path(argument)
    if path.is_dir():
        for child in sorted(p for p in path.rglob("*") if p.is_file()):
            hidden = any(part.startswith(".") for part in child.relative_to(path).parts)
            if not hidden and child.suffix not in _SKIPPED_SUFFIXES:
                yield child, str(child)
        return
    if path.is_file() and is_archive(path):
        for member, name in unpack(path):
            inside = PurePosixPath(name)
            if not any(p.startswith(".") for p in inside.parts) and inside.suffix not in _SKIPPED_SUFFIXES:
                yield member, f"{argument}/{name}"
        return
    if path.exists():
        yield path, argument
        return
    matches = sorted(glob.glob(argument, recursive=True)) if glob.has_magic(argument) else []
    if not matches:
        raise UsageError(f"{argument}: no such file or directory")
    for match in matches:
        if Path(match).is_dir():
            yield from _expand(match)
        else:
            yield Path(match), match


def _spool(stream: IO[bytes]) -> Path:
    """What can be read only once copied to a temporary file, so that evidence can be read back."""
    handle, name = tempfile.mkstemp(prefix="nccl-insight-", suffix=".input")
    with os.fdopen(handle, "wb") as out:
        shutil.copyfileobj(stream, out, 1 << 20)
    return Path(name)


def _readable_again(path: Path) -> Path:
    """The path itself, or a copy where it is a pipe, as ``<(zcat run.log.gz)`` of a shell."""
    if path.is_file():
        return path
    try:
        with path.open("rb") as stream:
            return _spool(stream)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error


def find_inputs(arguments: Iterable[str]) -> list[InputFile]:
    """The inputs that the arguments name, numbered in order; a directory is one run of many files.

    Raises:
        UsageError: a path does not exist or cannot be read.
        NotJudgedError: the arguments name no file.
    """
    inputs: list[InputFile] = []
    seen: set[Path] = set()
    for argument in arguments:
        pairs = [(_spool(sys.stdin.buffer), "<stdin>")] if argument == "-" else list(_expand(argument))
        for path, display in pairs:
            key = path.resolve()
            if key in seen:
                continue
            seen.add(key)
            path = _readable_again(path)
            try:
                inputs.append(InputFile(len(inputs), path, display, path.stat().st_size, _compression(path)))
            except OSError as error:
                raise UsageError(f"{display}: cannot be read ({error.strerror})") from error
    if not inputs:
        raise NotJudgedError("no input files found; name a log, a trace or a directory that holds them")
    return inputs
