"""New lines of growing files, in pieces that can be read by themselves, with bounded memory."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nccl_insight.inputs.find import shown

_MOST_BYTES = 16 << 20
_MOST_KEPT = 2048
_MOST_FILES = 20_000
#: Lines that later ones cannot be understood without: who a communicator's pointer belongs to.
_CONTEXT = re.compile(rb"Init (?:START|COMPLETE)|NCCL version ")
#: The first line of a dump of Inspector, which says whose records follow.
_DUMP = re.compile(rb'^[^\n]*"inspector_output_format_version"', re.M)


@dataclass
class _Place:
    """How far a file was read; ``kept`` are its lines of context, ``trouble`` why it is not read now."""

    offset: int = 0
    identity: tuple[int, int] = (0, 0)
    kept: deque[bytes] = field(default_factory=lambda: deque(maxlen=_MOST_KEPT))
    trouble: str = ""


class Follower:
    """Files, or the files of directories, from where they are now read on as they grow.

    A file that was renamed (``run.log`` to ``run.log.1``) is read on under its new name; one that was emptied is read
    from its beginning, with what is known of its communicators.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = [Path(path) for path in paths]
        self._places: dict[Path, _Place] = {}
        self._news: list[str] = []

    def new(self) -> Iterator[tuple[Path, bytes]]:
        """What was added to each file: whole lines, behind the lines of context of that file."""
        files = self._files()
        self._follow_renames(files)
        for path in set(self._places) - set(files):
            self._trouble(path, "it is gone")
        for path in files:
            piece = self._read(path)
            if piece:
                yield path, piece

    def news(self) -> list[str]:
        """What became of files since the last call: which can no longer be read, and why, and which can again."""
        news, self._news = self._news, []
        return news

    @property
    def blind(self) -> bool:
        """Whether no file can be read, though there were some."""
        return bool(self._places) and all(place.trouble for place in self._places.values())

    def _files(self) -> list[Path]:
        found: list[Path] = []
        for path in self._paths:
            if os.path.isdir(path):
                found += sorted(
                    p for p in path.rglob("*") if os.path.isfile(p) and not p.name.startswith(".")
                )
            elif os.path.isfile(path):
                found.append(path)
        return found[:_MOST_FILES]

    def _follow_renames(self, files: Sequence[Path]) -> None:
        """Files under another name than before keep their place."""
        known = {place.identity: path for path, place in self._places.items()}
        moved: dict[Path, _Place] = {}
        for path in files:
            identity = _identity(path)
            before = known.get(identity)
            if path not in self._places and before is not None and _identity(before) != identity:
                moved[path] = self._places[before]
                if before in files:
                    self._places[before] = _Place()
                else:
                    del self._places[before]
        self._places.update(moved)

    def _trouble(self, path: Path, why: str) -> None:
        place = self._places[path]
        if why and not place.trouble:
            self._news.append(f"{shown(path)} is not read any more: {why}")
        elif place.trouble and not why:
            self._news.append(f"{shown(path)} is read again")
        place.trouble = why

    def _read(self, path: Path) -> bytes:
        place = self._places.setdefault(path, _Place())
        try:
            with path.open("rb") as stream:
                state = os.fstat(stream.fileno())
                identity = state.st_dev, state.st_ino
                if identity != place.identity:  # written anew, by another process perhaps
                    place.offset, place.identity = 0, identity
                    place.kept.clear()
                if state.st_size < place.offset:  # emptied; the same process may go on writing
                    place.offset = 0
                if state.st_size == place.offset:
                    self._trouble(path, "")
                    return b""
                stream.seek(place.offset)
                block = stream.read(_MOST_BYTES)
        except OSError as error:
            self._trouble(path, error.strerror or "it cannot be read")
            return b""
        self._trouble(path, "")
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


def _identity(path: Path) -> tuple[int, int]:
    try:
        state = path.stat()
    except OSError:
        return -1, -1
    return state.st_dev, state.st_ino
