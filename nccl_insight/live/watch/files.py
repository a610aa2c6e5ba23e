"""New lines of growing files, in pieces that can be read by themselves, with bounded memory."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_MOST_BYTES = 16 << 20
_MOST_KEPT = 2048
_MOST_FILES = 20_000
#: Lines that later ones cannot be understood without: who a communicator's pointer belongs to.
_CONTEXT = re.compile(rb"Init (?:START|COMPLETE)|NCCL version ")
#: The first line of a dump of Inspector, which says whose records follow.
_DUMP = re.compile(rb'^[^\n]*"inspector_output_format_version"', re.M)


@dataclass
class _Place:
    """How far a file was read; ``kept`` are its lines of context."""

    offset: int = 0
    inode: int = 0
    kept: deque[bytes] = field(default_factory=lambda: deque(maxlen=_MOST_KEPT))


class Follower:
    """Files, or the files of directories, from where they are now read on as they grow."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = [Path(path) for path in paths]
        self._places: dict[Path, _Place] = {}

    def new(self) -> Iterator[tuple[Path, bytes]]:
        """What was added to each file: whole lines, behind the lines of context of that file."""
        for path in self._files():
            piece = self._read(path)
            if piece:
                yield path, piece

    def _files(self) -> list[Path]:
        found: list[Path] = []
        for path in self._paths:
            if path.is_dir():
                found += sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith("."))
            elif path.is_file():
                found.append(path)
        return found[:_MOST_FILES]

    def _read(self, path: Path) -> bytes:
        place = self._places.setdefault(path, _Place())
        try:
            with path.open("rb") as stream:
                state = os.fstat(stream.fileno())
                if state.st_ino != place.inode or state.st_size < place.offset:  # rotated or written anew
                    place.offset, place.inode = 0, state.st_ino
                    place.kept.clear()
                if state.st_size == place.offset:
                    return b""
                stream.seek(place.offset)
                block = stream.read(_MOST_BYTES)
        except OSError:
            return b""
        end = block.rfind(b"\n") + 1
        if end == 0:
            if len(block) == _MOST_BYTES:  # a line without an end: leave it out
                place.offset += len(block)
            return b""
        block = block[:end]
        place.offset += end
        before = b"".join(place.kept)
        for line in block.splitlines(keepends=True):
            if _CONTEXT.search(line):
                place.kept.append(line)
        last = max((dump.start() for dump in _DUMP.finditer(block)), default=None)
        if last is not None:
            place.kept.clear()
            place.kept.append(block[last : block.index(b"\n", last) + 1])
        return before + block
