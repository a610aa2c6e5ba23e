"""Logs read by many processes: shares of about equal bytes, and what they give put together again.

A large file is cut into ranges at line ends, small files go together. What two neighboring shares give is joined by the
code that joins the chunks of one process, in any grouping, so the result does not depend on who read what.
"""

import pickle
from collections.abc import Iterator, Sequence
from typing import Final

from nccl_insight.base.data import dataclass
from nccl_insight.inputs.chunks import ChunkIndex, Span, boundary
from nccl_insight.inputs.find import InputFile
from nccl_insight.readers.nccl_log.log import LogPart, Merger, log_reader, read_logs

_ALL: Final = 1 << 62


@dataclass(frozen=True)
class Share:
    """What one task reads: small files whole, or the bytes of one from ``begin`` to ``end``.

    The ends are moved to the next NCCL line by who reads, not by who shares out, which would have to open every file.
    ``end`` is -1 for the rest of the file.
    """

    files: tuple[InputFile, ...]
    begin: int = 0
    end: int = -1

    @property
    def ranged(self) -> bool:
        """Whether it is a part of a file."""
        return self.begin > 0 or self.end >= 0


@dataclass(frozen=True)
class Taken:
    """What a share gave, or several neighboring ones: rows, and where the lines of each input are."""

    log: LogPart
    indexes: dict[int, ChunkIndex]


def shares(files: Sequence[InputFile], size_bytes: int) -> Iterator[Share]:
    """Shares of about ``size_bytes`` of logs that are read together, in their order.

    A compressed file is not cut: it can only be read from its beginning.
    """
    group: list[InputFile] = []
    held = 0
    for file in files:
        if not file.small:
            if group:
                yield Share(tuple(group))
                group, held = [], 0
            yield from _ranges(file, size_bytes)
            continue
        group.append(file)
        held += file.size_bytes
        if held >= size_bytes:
            yield Share(tuple(group))
            group, held = [], 0
    if group:
        yield Share(tuple(group))


def _ranges(file: InputFile, size_bytes: int) -> Iterator[Share]:
    count = 1 if file.compression or file.damage else max(1, round(file.size_bytes / size_bytes))
    for n in range(count):
        begin = file.size_bytes * n // count
        end = file.size_bytes * (n + 1) // count if n + 1 < count else -1
        yield Share((file,), begin, end)


def take(share: Share, details: bool, workers: int | None = None) -> Taken:
    """Reads a share."""
    indexes = {file.input_id: ChunkIndex() for file in share.files}
    sources = [(file, indexes[file.input_id]) for file in share.files]
    span = None
    if share.ranged:
        (file,) = share.files
        end = boundary(file, share.end) if share.end >= 0 else -1
        span = Span(boundary(file, share.begin), end)
    return Taken(read_logs(sources, log_reader(details), workers, span, _ALL), indexes)


def join(taken: Sequence[Taken], final: bool = False) -> Taken:
    """What neighboring shares gave, in their order, as if one had read all. ``final``: nothing will be added."""
    merger = Merger(dict.fromkeys(input_id for part in taken for input_id in part.indexes))
    indexes: dict[int, ChunkIndex] = {}
    for part in taken:
        before = 0
        for input_id, index in part.indexes.items():
            before = indexes.setdefault(input_id, ChunkIndex()).follow(index)
        # Only the part of a file that was cut stands behind others, and then it is alone.
        merger.join(part.log, before)
    return Taken(merger.done(None if final else _ALL), indexes)


def packed(value: object) -> bytes:
    """A result for the way between processes: as few bytes as a fast compression gives."""
    import zstandard  # only for those who need it

    return zstandard.ZstdCompressor(level=1).compress(pickle.dumps(value, protocol=5))


def unpacked(data: bytes) -> object:
    """The result that :func:`packed` packed, in a process of the same program."""
    import zstandard

    return pickle.loads(zstandard.ZstdDecompressor().decompress(data))
