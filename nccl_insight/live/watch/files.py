"""New lines of growing files, whatever rotates them, in bounded pieces; and whole documents that appear beside them.

Files are known by what they are (device and inode) and by what they hold (their first bytes, and the last ones that
were read), so that a rename, a copy with truncation, a new file, a hole and a server that shows an old size are told
apart.
"""

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Final

from nccl_insight.base.data import dataclass, field
from nccl_insight.inputs.find import shown
from nccl_insight.inputs.stream import MAGIC
from nccl_insight.readers import discover

_MOST_BYTES: Final = 4 << 20
_MOST_LOOK: Final = 64 << 20
_MOST_KEPT: Final = 200_000
_MOST_FILES: Final = 20_000
_HEAD: Final = 512
_SNIFFED: Final = 64 << 10
_TAIL: Final = 256
_LEAST_ALIKE: Final = 64
#: Lines that later ones cannot be understood without: whose a communicator's pointer is.
_INIT: Final = (b"Init START", b"Init COMPLETE", b"Destroy COMPLETE", b"Abort COMPLETE")
_PROCESS: Final = re.compile(rb"([\w.-]{1,100}:[0-9]{1,9}):[0-9]{1,9} ")
_POINTER: Final = re.compile(rb" comm (0x[0-9a-f]{1,16}) ")
_LINE: Final = 2048
#: The first line of a dump of Inspector, which says whose records follow.
_DUMP: Final = re.compile(rb'^[^\n]*"inspector_output_format_version"[^\n]*\n', re.M)
#: Formats that grow by lines, and those that are read whole; others say nothing about a job that runs.
_GROWING: Final = ("inspector", "nccl_tests")
_WHOLE: Final = ("flight_recorder", "ras")
_GONE: Final = "gone"
_LOOKS: Final = 3
_NAMED: Final = 3
_Identity = tuple[int, int]


@dataclass
class _Place:
    """How far a file was read. ``head``: its first bytes; ``tail``: the last ones that were read.

    ``kind``: ``lines``, or a document's format, ``packed`` or ``other`` (not read). ``dump``: the line of Inspector
    whose records follow. ``trouble``: why it is not read now, for ``looks`` looks. ``told``: that this was said.
    ``copy_of``: the file whose bytes it repeats.
    """

    identity: _Identity
    kind: str = "lines"
    offset: int = 0
    size: int = 0
    head: bytes = b""
    tail: bytes = b""
    dump: bytes = b""
    trouble: str = ""
    looks: int = 0
    told: bool = False
    copy_of: Path | None = None


@dataclass(frozen=True)
class Growth:
    """What files grew by: whole lines of each, and documents that are new or have changed, by format.

    ``context``: lines of before that say whose communicators the new ones name. ``more``: not all of it was read yet.
    ``anew``: files that were emptied or replaced, so that lines may be lost.
    """

    pieces: Sequence[tuple[Path, bytes]] = ()
    context: bytes = b""
    documents: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    more: bool = False
    anew: frozenset[str] = frozenset()


class Follower:
    """Files, or the files of directories, read on as they grow."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = [Path(path) for path in paths]
        self._places: dict[Path, _Place] = {}
        self._formats = discover()
        self._begun = False
        self._anew: set[str] = set()
        self._turn = 0
        #: Process and pointer of a communicator -> its lines of init.
        self._context: dict[tuple[bytes, bytes], list[bytes]] = {}

    def grown(self) -> Growth:
        """What was added since the last call."""
        files = self._files()
        self._anew.clear()
        self._follow_renames(files)
        # New files come first: a copy is known by what the copied one held before that was emptied.
        for path in [p for p, identity in files.items() if self._identity_of(p) != identity]:
            self._guarded(path, self._begin)
        for path in sorted(self._places.keys() - files.keys()):
            if any(path.name.startswith(f"{other.name}.") for other in files if other.parent == path.parent):
                del self._places[path]  # an old one of a file that is rotated
            else:
                self._places[path].trouble = _GONE
        context = b"".join(chain.from_iterable(self._context.values()))
        pieces: list[tuple[Path, bytes]] = []
        documents: dict[str, list[Path]] = {}
        left, more = _MOST_LOOK, False
        # Who comes last may find nothing left of what one look reads, so each begins with another file.
        order, start = list(files), self._turn % max(1, len(files))
        for path in (*order[start:], *order[:start]):
            place = self._places[path]
            if place.kind != "lines":
                if place.size != place.offset and place.kind != "other":
                    documents.setdefault(place.kind, []).append(path)
                place.offset = place.size
                continue
            before = len(pieces)
            pieces += [(path, piece) for piece in self._guarded(path, self._read, left)]
            left -= sum(len(piece) for _, piece in pieces[before:])
            more |= not place.trouble and place.copy_of is None and place.size - place.offset >= _MOST_BYTES
        more |= left <= 0
        self._turn += 997 if more else 0
        self._begun = True
        for _, piece in pieces:
            self._remember(piece)
        return Growth(
            sorted(pieces, key=lambda pair: pair[0]), context, documents, more and bool(pieces), frozenset(self._anew)
        )

    def news(self) -> list[str]:
        """What became of files since the last call: which can no longer be read, and why, and which can again.

        Called once a look: the new file of one that was rotated may come some looks after the old one was gone.
        """
        changed: dict[str, list[Path]] = {}
        for path, place in self._places.items():
            place.looks = place.looks + 1 if place.trouble else 0
            if bool(place.trouble) is place.told or (place.trouble == _GONE and place.looks < _LOOKS):
                continue
            place.told = not place.told
            what = f"not read any more: {place.trouble}" if place.trouble else "read again"
            changed.setdefault(what, []).append(path)
        return [f"{_named(paths)} {what}" for what, paths in changed.items()]

    @property
    def blind(self) -> bool:
        """Whether no file can be read, though there were some."""
        return bool(self._places) and all(place.trouble for place in self._places.values())

    @property
    def unread(self) -> frozenset[str]:
        """Files that cannot be read now."""
        return frozenset(str(path) for path, place in self._places.items() if place.trouble)

    def _identity_of(self, path: Path) -> _Identity | None:
        place = self._places.get(path)
        return None if place is None else place.identity

    def _files(self) -> dict[Path, _Identity]:
        """All files, each once: links to it are left out, the name that is known is kept."""
        found: list[Path] = []
        for path in self._paths:
            if path.is_dir():
                for folder, folders, names in os.walk(path):
                    folders[:] = sorted(name for name in folders if not name.startswith("."))
                    found += (Path(folder, name) for name in sorted(names) if not name.startswith("."))
            else:
                found += [path, *self._moved_beside(path)]
        found = [*self._places, *(path for path in found if path not in self._places)]
        once: dict[_Identity, Path] = {}
        for path in found:
            identity = _identity(path)
            if identity is not None and len(once) < _MOST_FILES:
                once.setdefault(identity, path)
        return {path: identity for identity, path in sorted(once.items(), key=lambda pair: pair[1])}

    def _moved_beside(self, path: Path) -> Iterator[Path]:
        """Where a single file went that is another one by now: the last lines before that are still to be read."""
        before = self._identity_of(path)
        if before is None or before == _identity(path):
            return
        try:
            with os.scandir(Path(os.path.realpath(path)).parent) as entries:
                names = [Path(entry.path) for entry in entries if entry.inode() == before[1]]
        except OSError:
            return
        yield from (name for name in names if _identity(name) == before)

    def _follow_renames(self, files: Mapping[Path, _Identity]) -> None:
        """Files under another name than before keep their place; a copy takes over that of a file that is gone."""
        known = {place.identity: path for path, place in self._places.items()}
        for path, identity in files.items():
            before = known.get(identity)
            if before not in (None, path) and files.get(before) != identity:
                self._places[path] = self._places.pop(before)
                for place in self._places.values():
                    place.copy_of = path if place.copy_of == before else place.copy_of
        for place in self._places.values():
            if place.copy_of is not None and place.copy_of not in files:
                self._take_over(place)

    def _take_over(self, place: _Place) -> None:
        """A copy is read on where the original was left: that was emptied, or is gone."""
        original = self._places.get(place.copy_of) if place.copy_of is not None else None
        place.copy_of = None
        if original is not None:
            place.offset, place.tail, place.dump = original.offset, original.tail, original.dump

    def _guarded(self, path: Path, do: Callable[[Path, IO[bytes], int], list[bytes]], most: int = 0) -> list[bytes]:
        """What ``do`` gives for an open file; that it cannot be read is news."""
        try:
            with path.open("rb") as stream:
                found = do(path, stream, most)
        except OSError as error:
            place = self._places.setdefault(path, _Place((-1, -1)))
            place.trouble = error.strerror or "cannot be read"
            return []
        self._places[path].trouble = ""
        return found

    def _begin(self, path: Path, stream: IO[bytes], _: int) -> list[bytes]:
        """A file that is new, or another one under a known name."""
        state = os.fstat(stream.fileno())
        head = stream.read(_SNIFFED)
        told = path in self._places and self._places[path].told
        if path in self._places:
            self._anew.add(str(path))
        place = self._places[path] = _Place((state.st_dev, state.st_ino), told=told)
        if head.startswith(tuple(MAGIC.values())):
            # What was packed before the first look is the beginning of the story; later, it was read already.
            place.kind = "other" if self._begun else "packed"
        else:
            score, kind = max((format_.sniff(head, path.name), format_.kind) for format_ in self._formats)
            if score >= 0.9 and kind not in _GROWING:
                place.kind = kind if kind in _WHOLE else "other"
            elif head[:1] == b"\x80" or b"\0" in head.lstrip(b"\0"):
                place.kind = "other"
        place.size = state.st_size
        if place.kind == "lines":
            others = (p for p, known in self._places.items() if known is not place and known.kind == "lines")
            place.copy_of = next((p for p in others if self._copies(stream, p)), None)
        return []

    def _copies(self, stream: IO[bytes], path: Path) -> bool:
        """Whether an open file repeats, as far as both go, what was read of another."""
        known = self._places[path]
        stream.seek(0)
        if known.copy_of is not None or len(known.head) < _LEAST_ALIKE or stream.read(len(known.head)) != known.head:
            return False
        end = min(os.fstat(stream.fileno()).st_size, known.offset)
        stream.seek(max(0, end - _TAIL))
        last = stream.read(end - stream.tell())
        if end == known.offset:
            return last == known.tail
        with path.open("rb") as original:  # the copy is being made
            original.seek(max(0, end - _TAIL))
            return original.read(len(last)) == last

    def _read(self, path: Path, stream: IO[bytes], most: int) -> list[bytes]:
        place = self._places[path]
        place.size = os.fstat(stream.fileno()).st_size
        if place.copy_of is not None:
            if place.copy_of in self._places and self._copies(stream, place.copy_of):
                return []
            place.copy_of = None
        stream.seek(0)
        head = stream.read(_HEAD)
        stream.seek(max(0, place.offset - _TAIL))
        tail = stream.read(min(_TAIL, place.offset))
        pieces: list[bytes] = []
        if self._emptied(place, head, tail):
            self._anew.add(str(path))
            for other, copy in self._places.items():
                if copy.copy_of == path:
                    self._take_over(copy)
                    with other.open("rb") as rest:
                        rest.seek(copy.offset)
                        pieces.append(_cut(copy, rest.read(_MOST_BYTES)))
            place.offset, place.tail, place.head = 0, b"", b""
        elif place.size >= place.offset:
            place.tail = tail
        if len(place.head) < _HEAD:
            place.head = head
        stream.seek(place.offset)
        pieces.append(_cut(place, stream.read(max(0, min(_MOST_BYTES, most)))))
        return [piece for piece in pieces if piece]

    def _emptied(self, place: _Place, head: bytes, tail: bytes) -> bool:
        """Whether a file was emptied or written anew, rather than shown by a server as it was a while ago."""
        if place.size < place.offset:
            return place.size > 0 and not place.head.startswith(head[: len(place.head)])
        # A process that does not append leaves a hole where its file was emptied.
        return tail != place.tail and bool(tail.strip(b"\0"))

    def _remember(self, piece: bytes) -> None:
        if not any(word in piece for word in _INIT):
            return
        for line in piece.splitlines(keepends=True):
            word = next((word for word in _INIT if word in line), None)
            process, pointer = _PROCESS.search(line[:_LINE]), _POINTER.search(line[:_LINE])
            if word is None or process is None or pointer is None:
                continue
            key = (process[1], pointer[1])
            if word != b"Init COMPLETE":
                self._context.pop(key, None)
            if word.startswith(b"Init") and len(self._context) < _MOST_KEPT:
                self._context.setdefault(key, []).append(line)


def _cut(place: _Place, block: bytes) -> bytes:
    """Whole lines of what was read, with Inspector's line of before in front."""
    end = max(block.rfind(b"\n"), block.rfind(b"\r")) + 1
    if end == 0:
        if len(block) == _MOST_BYTES:  # a line without an end: leave it out
            place.offset, place.tail = place.offset + len(block), block[-_TAIL:]
        return b""
    block = block[:end]
    place.offset += end
    place.tail = (place.tail + block)[-_TAIL:]
    before, dumps = place.dump, _DUMP.findall(block)
    place.dump = dumps[-1] if dumps else before
    return before + block.lstrip(b"\0")


def _named(paths: Sequence[Path]) -> str:
    names = ", ".join(shown(path) for path in paths[:_NAMED])
    if len(paths) == 1:
        return f"{names} is"
    return f"{names} and {len(paths) - _NAMED} more are" if len(paths) > _NAMED else f"{names} are"


def _identity(path: Path) -> _Identity | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return (state.st_dev, state.st_ino) if stat.S_ISREG(state.st_mode) else None
