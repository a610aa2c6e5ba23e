"""Bounded chunks of whole lines from an input, and the way back from a line number to its text.

A line is what stands before ``\\n``. Bytes that are not UTF-8 become U+FFFD and are counted. Chunks end
before an NCCL line where possible, so that a message of several lines is not cut in two.
"""

from __future__ import annotations

import hashlib
import io
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from nccl_insight.io.source import InputFile

# glibc keeps freed blocks of less than 32 MiB; larger ones cost new pages each time.
CHUNK_BYTES = 31 * 1024 * 1024
_LEAST_BYTES = 4 * 1024 * 1024
_UNPACKED = 10
_REPLACEMENT = "\ufffd"


@dataclass(frozen=True)
class Chunk:
    """Whole lines. ``first_line`` is the 1-based number of the first; ``ends`` is the number of lines."""

    input_id: int
    first_line: int
    count: int
    offset: int
    text: str
    bad_bytes: int


@dataclass
class ChunkIndex:
    """Where chunks begin, what was read, and what was wrong with the stream; filled while reading."""

    first_lines: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    lines: int = 0
    bad_bytes: int = 0
    sha256: str = ""
    damage: str = ""


def _decode(data: memoryview) -> tuple[str, int]:
    try:
        return str(data, "utf-8"), 0
    except UnicodeDecodeError:
        text = str(data, "utf-8", "replace")
        return text, text.count(_REPLACEMENT) - bytes(data).count(_REPLACEMENT.encode())


def _cut(data: bytearray, size: int) -> int:
    """Where to end a chunk: before the last NCCL line, else after the last line break, else everywhere."""
    marker = data.rfind(b" NCCL ", 0, size)
    before = data.rfind(b"\n", 0, marker) + 1 if marker > 0 else 0
    return before or data.rfind(b"\n", 0, size) + 1 or size


def file_sha256(file: InputFile) -> str:
    """Hash of the file's bytes as they lie on disk."""
    digest = hashlib.sha256()
    with file.path.open("rb") as raw:
        while block := raw.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def chunk_size(file: InputFile) -> int:
    """Bytes of a chunk: large ones cost least, but every core should have some of a file to read."""
    likely = file.size_bytes * (_UNPACKED if file.compression else 1)
    return max(_LEAST_BYTES, min(CHUNK_BYTES, likely // 4))


def _first_size(file: InputFile, size: int) -> int:
    """Bytes to begin with: small files need no large buffer, and longer text comes in more chunks."""
    return min(size, file.size_bytes * 64 + 4096 if file.compression else file.size_bytes + 1)


def _fill(stream: io.BufferedIOBase, buffer: memoryview, index: ChunkIndex) -> int:
    """Reads until the buffer is full or the stream ends; a stream that breaks ends there."""
    filled = 0
    while filled < len(buffer):
        try:
            got = stream.readinto1(buffer[filled:])
        except (OSError, EOFError, ValueError, zlib.error) as error:
            index.damage = str(error) or type(error).__name__
            break
        except Exception as error:  # zstandard raises its own class, which derives from Exception only
            index.damage = str(error)
            break
        if not got:
            break
        filled += got
    return filled


def read_chunks(file: InputFile, index: ChunkIndex, size: int | None = None) -> Iterator[Chunk]:
    """Chunks of an input in order; ``index`` is filled on the way, ``index.damage`` tells a broken stream.

    All are read through one buffer, which only a line longer than it makes larger.
    """
    digest = None if file.compression else hashlib.sha256()
    buffer = bytearray(_first_size(file, size or chunk_size(file)))
    held = 0
    line, offset = 1, 0
    with file.open() as stream:
        while True:
            if held == len(buffer):
                buffer.extend(bytes(len(buffer)))
            with memoryview(buffer) as view:
                got = _fill(stream, view[held:], index)
                if digest is not None:
                    digest.update(view[held : held + got])
            last = held + got < len(buffer)
            held += got
            end = held if last else _cut(buffer, held)
            if end:
                with memoryview(buffer) as view:
                    text, bad = _decode(view[:end])
                count = text.count("\n") + (not text.endswith("\n"))
                index.first_lines.append(line)
                index.offsets.append(offset)
                index.bad_bytes += bad
                yield Chunk(file.input_id, line, count, offset, text, bad)
                line += count
                offset += end
                buffer[: held - end] = buffer[end:held]
                held -= end
            if last:
                index.lines = line - 1
                index.sha256 = digest.hexdigest() if digest is not None else file_sha256(file)
                return


class FileLines:
    """Reads single lines back from inputs, for evidence. Cost is one chunk per group of wanted lines."""

    def __init__(self, files: Mapping[int, tuple[InputFile, ChunkIndex]]) -> None:
        self._files = files

    def lines(self, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], str]:
        """Text of ``(input_id, line)`` pairs, undecodable bytes replaced; unknown pairs are left out."""
        by_input: dict[int, set[int]] = {}
        for input_id, line in wanted:
            by_input.setdefault(input_id, set()).add(line)
        found: dict[tuple[int, int], str] = {}
        for input_id, numbers in by_input.items():
            if input_id in self._files:
                file, index = self._files[input_id]
                for number, text in _read_lines(file, index, numbers):
                    found[(input_id, number)] = text
        return found


def _read_lines(file: InputFile, index: ChunkIndex, numbers: set[int]) -> Iterator[tuple[int, str]]:
    wanted: dict[int, list[int]] = {}
    for number in numbers:
        at = bisect_right(index.first_lines, number) - 1
        if at >= 0 and 1 <= number <= index.lines:
            wanted.setdefault(at, []).append(number)
    if not wanted:
        return
    with file.open() as stream:
        for at in sorted(wanted):
            start = index.offsets[at]
            end = index.offsets[at + 1] if at + 1 < len(index.offsets) else None
            try:
                stream.seek(start)
                data = stream.read(-1 if end is None else end - start)
            except (OSError, EOFError, ValueError, zlib.error):
                return
            lines = data.decode("utf-8", "replace").split("\n")
            for number in sorted(wanted[at]):
                position = number - index.first_lines[at]
                if position < len(lines):
                    yield number, lines[position].rstrip("\r")
