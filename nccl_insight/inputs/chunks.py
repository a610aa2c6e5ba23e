"""Bounded chunks of whole lines from an input, and the way back from a line number to its text.

A line is what stands before ``\\n``. Bytes that are not UTF-8 become U+FFFD and are counted. Chunks end
before an NCCL line where possible, so that a message of several lines is not cut in two.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

import polars as pl

from nccl_insight.base.data import dataclass, field
from nccl_insight.base.grouping import grouped
from nccl_insight.inputs.find import InputFile
from nccl_insight.inputs.stream import Stream

CHUNK_BYTES = 20 * 1024 * 1024
# Of all chunks in memory together; less where much of an input waits beside them to be judged.
_AT_ONCE_BYTES = 60 * 1024 * 1024
_AT_ONCE_LARGE_BYTES = 48 * 1024 * 1024
_LARGE_BYTES = 512 * 1024 * 1024
_LEAST_BYTES = 4 * 1024 * 1024
_UNPACKED = 10
_SMALL_MOST = 16 * 1024 * 1024
# The end of a chunk, in which nearly always a line of NCCL begins.
_TAIL_BYTES = 64 * 1024
# Looks like a record, so that no message goes on in the next input; is none.
_BETWEEN = b" NCCL \n"
_REPLACEMENT = "\ufffd"
# How far a line of NCCL is looked for to begin a part with.
_SEARCHED_MOST = 64 * 1024 * 1024


@dataclass(frozen=True)
class Chunk:
    """Whole lines of an input, or several small inputs whole.

    ``data``: their bytes, of which the first ``size`` count; what is behind them belongs to the next chunk. ``text``:
    the same as text, where ``data`` is not UTF-8. ``input_ids`` and ``starts``: the inputs, and the line of the chunk
    (from 1) at which each begins; a line of no record stands behind each where there are several. Lines of a single
    input are not counted yet: that would hold up the reading. ``longest``: bytes of a line that are read.
    ``last``: the input ends with it. ``marks``: see :class:`ChunkIndex`; filled by who cuts the lines.
    """

    input_ids: tuple[int, ...]
    starts: tuple[int, ...]
    data: bytes
    size: int
    text: str | None = None
    longest: int = 1 << 20
    last: bool = True
    marks: list[tuple[int, int]] = field(default_factory=list, compare=False)


@dataclass(frozen=True)
class Span:
    """Bytes ``begin`` to ``end`` (not included) of a file; to its end for -1."""

    begin: int = 0
    end: int = -1


@dataclass
class ChunkIndex:
    """Where chunks begin, what was read, and what was wrong with the stream; filled while reading.

    ``first_lines`` (1-based) and ``lines`` are filled by who counts the lines of the chunks, with :meth:`counted`.
    ``marks``: for each chunk, places within it where one may begin to read, as (lines before, byte), ascending; none
    where nobody told.
    """

    first_lines: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    marks: list[list[tuple[int, int]]] = field(default_factory=list)
    lines: int = 0
    bad_bytes: int = 0
    sha256: str = ""
    damage: str = ""
    long_line: bool = False

    def counted(self, lines: int) -> int:
        """Takes the number of lines of the next chunk; gives the number of lines before it."""
        before = self.lines
        self.first_lines.append(before + 1)
        self.lines += lines
        return before

    def follow(self, other: ChunkIndex) -> int:
        """Takes what is known of the next part of the same input; gives the number of lines before it."""
        before = self.lines
        self.first_lines += [line + before for line in other.first_lines]
        self.offsets += other.offsets
        self.marks += other.marks
        self.lines += other.lines
        self.bad_bytes += other.bad_bytes
        self.sha256 = self.sha256 or other.sha256
        self.damage = self.damage or other.damage
        self.long_line = self.long_line or other.long_line
        return before


def _decode(data: bytes, size: int) -> tuple[str | None, int]:
    """Text of the first bytes and how many of them are bad; none where they are UTF-8, as polars tells fastest."""
    if data.isascii():
        return None, 0
    data = data[:size]
    with suppress(pl.exceptions.ComputeError):  # some releases of polars raise, others give null
        if not pl.Series([data]).cast(pl.String, strict=False).null_count():
            return None, 0
    text = data.decode("utf-8", "replace")
    return text, text.count(_REPLACEMENT) - data.count(_REPLACEMENT.encode())


def _cut(data: bytes | bytearray, size: int) -> int:
    """Where to end a chunk: before the last NCCL line, else after the last line break, else everywhere."""
    marker = data.rfind(b" NCCL ", 0, size)
    before = data.rfind(b"\n", 0, marker) + 1 if marker > 0 else 0
    return before or data.rfind(b"\n", 0, size) + 1 or size


def boundary(file: InputFile, at: int) -> int:
    """Where a part of a file that is not compressed may begin: at the first NCCL line that begins at ``at`` or behind.

    At any line where no NCCL line follows for long. Who reads the part before it and who reads it find the same place.
    """
    if at <= 0 or at >= file.size_bytes:
        return max(0, min(at, file.size_bytes))
    size = 1 << 20
    with file.open() as stream:
        while True:
            stream.seek(at - 1)
            data = stream.read(size)
            first = data.find(b"\n") + 1
            marker = data.find(b" NCCL ", first) if first else -1
            if marker >= 0:
                return at - 1 + data.rfind(b"\n", 0, marker) + 1
            if len(data) < size:
                return file.size_bytes
            if size >= _SEARCHED_MOST:
                return at - 1 + first if first else boundary(file, at + size)
            size *= 4


def file_sha256(file: InputFile) -> str:
    """Hash of the file's bytes as they lie on disk."""
    digest = hashlib.sha256()
    with file.raw() as raw:
        while block := raw.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def chunk_size(size_bytes: int, workers: int) -> int:
    """Bytes of a chunk of inputs of that size (unpacked), of which one more than workers are in memory.

    Every rule costs time in every chunk, so large ones are best; but each worker should have some to read, and
    memory is finite: a chunk takes about ten times its size. Beyond 20 MiB the time gained is not worth the memory.
    """
    at_once = _AT_ONCE_BYTES if size_bytes <= _LARGE_BYTES else _AT_ONCE_LARGE_BYTES
    most = min(CHUNK_BYTES, at_once // (workers + 1))
    return max(_LEAST_BYTES, min(most, size_bytes // 4))


def _likely_size(file: InputFile) -> int:
    return file.size_bytes * (_UNPACKED if file.compression else 1)


def _fill(stream: Stream, buffer: memoryview) -> int:
    """Reads until the buffer is full or the stream ends."""
    filled = 0
    while filled < len(buffer) and (got := stream.readinto(buffer[filled:])):
        filled += got
    return filled


def _end_ahead(stream: Stream, offset: int, size: int) -> int:
    """Where the chunk of so many bytes will end, as its last bytes tell; ``size`` where they do not."""
    if size <= _TAIL_BYTES:
        return size
    stream.seek(offset + size - _TAIL_BYTES)
    tail = stream.read(_TAIL_BYTES)
    marker = tail.rfind(b" NCCL ") if len(tail) == _TAIL_BYTES else -1
    before = tail.rfind(b"\n", 0, marker) + 1 if marker > 0 else 0
    return size - _TAIL_BYTES + before if before else size


def _plain_blocks(stream: Stream, size: int, span: Span, near: bool) -> Iterator[tuple[bytes, int, bool]]:
    """Blocks of a file, where to end their chunks, and whether it is the last; what is behind the end comes again.

    Bytes are read and handed on as they are: a copy would hold up the threads that work on earlier chunks, and cost
    each a third of its pages. ``near``: going back and forth in the file costs nothing.
    """
    offset = span.begin
    while True:
        wanted = min(size, span.end - offset) if span.end >= 0 else size
        ahead = _end_ahead(stream, offset, size) if near and wanted == size else size
        stream.seek(offset)
        if ahead < size:
            block = stream.read(ahead)
            if len(block) == ahead:
                yield block, ahead, False
                offset += ahead
                continue
            stream.seek(offset)
        block = stream.read(wanted)
        last = len(block) < size
        end = len(block) if last else _cut(block, size)
        if end:
            yield block, end, last and span.end < 0
        if last:
            return
        offset += end


def _packed_blocks(stream: Stream, size: int) -> Iterator[tuple[bytes, int, bool]]:
    """The same for a stream that cannot go back."""
    buffer = bytearray(size)
    held = 0
    while True:
        with memoryview(buffer) as view:
            held += _fill(stream, view[held:])
            last = held < size
            end = held if last else _cut(buffer, held)
            block = bytes(view[:end])
        if end:
            yield block, end, last
        if last:
            return
        buffer[: held - end] = buffer[end:held]
        held -= end


def read_chunks(
    file: InputFile, index: ChunkIndex, workers: int = 1, size: int | None = None, span: Span | None = None
) -> Iterator[Chunk]:
    """Chunks of an input in order, of ``size`` bytes or what suits so many workers.

    ``index`` is filled on the way, ``index.damage`` tells a broken stream. ``span``: the part of a file that is not
    compressed to read; its hash is then left to others.
    """
    digest = hashlib.sha256()
    whole = span is None
    span = span or Span()
    offset = span.begin
    longest = file.limits.line_kib << 10
    with file.open() as stream:
        size = size or chunk_size(_likely_size(file), workers)
        blocks = (
            _packed_blocks(stream, size) if stream.packed else _plain_blocks(stream, size, span, file.remote is None)
        )
        for data, end, last in blocks:
            if whole and not file.compression:
                with memoryview(data)[:end] as view:
                    digest.update(view)
            text, bad = _decode(data, end)
            index.offsets.append(offset)
            index.bad_bytes += bad
            index.long_line = index.long_line or _holds_long_line(data, end, longest)
            chunk = Chunk((file.input_id,), (1,), data, end, text, longest, last)
            index.marks.append(chunk.marks)
            yield chunk
            offset += end
        index.damage = stream.damage
    if whole:
        index.sha256 = file_sha256(file) if file.compression else digest.hexdigest()


def _holds_long_line(data: bytes, end: int, longest: int) -> bool:
    at = 0
    while end - at > longest:
        at = data.rfind(b"\n", at, at + longest + 1) + 1
        if not at:
            return True
    return False


def _joined(parts: Sequence[Chunk]) -> tuple[bytes, str | None]:
    """All of a small input, its last line ended: bytes, and text where they are not UTF-8."""
    data = b"".join(part.data[: part.size] for part in parts)
    end = b"" if data.endswith(b"\n") or not data else b"\n"
    if all(part.text is None for part in parts):
        return data + end, None
    texts = (part.data[: part.size].decode() if part.text is None else part.text for part in parts)
    return data + end, "".join(texts) + end.decode()


def read_together(files: Sequence[tuple[InputFile, ChunkIndex]], workers: int = 1) -> Iterator[Chunk]:
    """Chunks of many small inputs, several whole ones in each, so that none costs more than its lines.

    One that turns out to be large when it is unpacked gives chunks of its own.
    """
    size = chunk_size(sum(file.size_bytes for file, _ in files), workers)
    longest = min((file.limits.line_kib << 10 for file, _ in files), default=0)
    group: list[tuple[int, bytes, str | None]] = []
    held = 0
    for file, index in files:
        chunks = read_chunks(file, index, size=_likely_size(file) + 1)
        parts: list[Chunk] = []
        total = 0
        for part in chunks:
            parts.append(part)
            total += part.size
            if total > max(size, _SMALL_MOST):
                break
        else:
            index.offsets[:], index.marks[:] = [0], [[]]
            group.append((file.input_id, *_joined(parts)))
            held += total
            if held >= size:
                yield _together(group, longest)
                group, held = [], 0
            continue
        if group:
            yield _together(group, longest)
            group, held = [], 0
        yield from parts
        yield from chunks
    if group:
        yield _together(group, longest)


def _together(group: Sequence[tuple[int, bytes, str | None]], longest: int) -> Chunk:
    if len(group) == 1:
        ((number, only, text),) = group
        return Chunk((number,), (1,), only, len(only), text, longest)
    starts, line = [], 1
    for _, data, _ in group:
        starts.append(line)
        line += data.count(b"\n") + 1
    ids = tuple(input_id for input_id, _, _ in group)
    if all(text is None for _, _, text in group):
        whole = b"".join(data + _BETWEEN for _, data, _ in group)
        return Chunk(ids, tuple(starts), whole, len(whole), longest=longest)
    joined = "".join((data.decode() if text is None else text) + _BETWEEN.decode() for _, data, text in group)
    return Chunk(ids, tuple(starts), b"", 0, joined, longest)


class FileLines:
    """Reads single lines back from inputs, for evidence. Cost is one chunk per group of wanted lines."""

    def __init__(self, files: Mapping[int, tuple[InputFile, ChunkIndex]]) -> None:
        self._files = files

    def lines(self, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], str]:
        """Text of ``(input_id, line)`` pairs, undecodable bytes replaced; unknown pairs are left out."""
        found: dict[tuple[int, int], str] = {}
        for input_id, numbers in grouped(wanted).items():
            if input_id in self._files:
                lines = _read_lines(*self._files[input_id], set(numbers))
                found.update(((input_id, number), text) for number, text in lines)
        return found


def _read_lines(file: InputFile, index: ChunkIndex, numbers: set[int]) -> Iterator[tuple[int, str]]:
    wanted: dict[tuple[int, int], list[int]] = {}
    for number in numbers:
        at = bisect_right(index.first_lines, number) - 1
        if at >= 0 and 1 <= number <= index.lines:
            before = number - index.first_lines[at]
            mark = bisect_right(index.marks[at], before, key=lambda mark: mark[0]) - 1
            wanted.setdefault((at, mark), []).append(number)
    if not wanted:
        return
    with file.open() as stream:
        for at, mark in sorted(wanted):
            marks = index.marks[at]
            skipped, within = marks[mark] if mark >= 0 else (0, 0)
            start = index.offsets[at] + within
            end = index.offsets[at + 1] if at + 1 < len(index.offsets) else None
            if mark + 1 < len(marks):
                end = index.offsets[at] + marks[mark + 1][1]
            stream.seek(start)
            data = stream.read(-1 if end is None else end - start)
            lines = data.decode("utf-8", "replace").split("\n")
            for number in sorted(wanted[at, mark]):
                position = number - index.first_lines[at] - skipped
                if position < len(lines):
                    yield number, lines[position].rstrip("\r")
