"""Archives of one run: tar of any compression and zip, unpacked to the temporary directory, bounded.

Nothing is written outside of that directory, and nothing but regular files is taken. What a damaged archive still
gives is used; the damage is a value at the member that it cut, or at a member of its own.
"""

from __future__ import annotations

import contextlib
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, Protocol

from nccl_insight.base.data import dataclass
from nccl_insight.inputs import temporary
from nccl_insight.inputs.limits import Limits
from nccl_insight.inputs.stream import Stream, compression_of

_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_TAR: Final = (".tar", ".tgz", ".tzst", ".txz", ".tbz2", ".tar.gz", ".tar.zst", ".tar.xz", ".tar.bz2")
_BLOCK: Final = 1 << 20
_NAME_MOST: Final = 100
# The members of a bundle that this tool wrote which are no inputs, and where its inputs are.
_BUNDLE: Final = frozenset({"README.txt", "SHA256SUMS", "analysis.json", "report.html"})
_BUNDLED: Final = "inputs/"
CUT_MARK: Final = b"bytes left out of the bundle ...]\n"
_TOO_LARGE: Final = (
    "the archive expands to more than is read (limits archive-mib, expansion-ratio and expansion-free-mib); the rest "
    "was not read"
)


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True)
class Member:
    """A file of an archive: where it was unpacked to, its name inside, and what is wrong with it."""

    path: Path
    name: str
    damage: str = ""


class _Tail:
    """Passes reads on and keeps the end of what was read: a whole tar ends with zeros."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.last = b""

    def read(self, size: int) -> bytes:
        data = self.stream.read(size)
        self.last = data[-512:] or self.last
        return data


def is_archive(path: Path) -> bool:
    """Whether the file is a tar, compressed or not, or a zip: by its content, for an old tar by its name."""
    try:
        with path.open("rb") as raw:
            magic = raw.read(512)
    except OSError:
        return False
    if magic.startswith(_ZIP):
        return True
    packed = compression_of(magic)
    if packed:
        with Stream(path, packed) as stream:
            magic = stream.read(512)
    return magic[257:262] == b"ustar" or (path.name.lower().endswith(_TAR) and len(magic) > 0 and b"\0" in magic)


def is_zip(path: Path) -> bool:
    """Whether the file begins as a zip does."""
    with path.open("rb") as raw:
        return raw.read(4) in _ZIP


def is_bundle(path: Path) -> bool:
    """Whether the file is a bundle that this tool wrote."""
    try:
        with zipfile.ZipFile(path) as archive:
            return set(archive.namelist()) >= _BUNDLE
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False


def unpack(path: Path, budget: Budget) -> Iterator[Member]:
    """Regular files of the archive in its order, as far as the budget allows.

    Links, devices, absolute names and names that leave the archive are passed over.
    """
    yield from (_unpack_zip if is_zip(path) else _unpack_tar)(path, budget)


class Budget:
    """What may still be unpacked of an archive and of those within it."""

    def __init__(self, limits: Limits, packed_bytes: int) -> None:
        self.limits = limits
        self.packed_bytes = packed_bytes
        self.files = limits.archive_files
        self.left = min(limits.archive_mib << 20, limits.expanded_bytes(packed_bytes))

    def file(self) -> str:
        """Takes one file; the limit that forbids it, if any."""
        self.files -= 1
        held = f"it holds more than {self.limits.archive_files:,} files (limit archive-files); the rest was not read"
        return "" if self.files >= 0 else held

    def save(self, member: _Readable, name: str) -> Member:
        """Writes a member, as far as it can be read and may be written."""
        base = PurePosixPath(name).name.encode("utf-8", "replace")[-_NAME_MOST:].decode("utf-8", "replace")
        target = temporary.place(base.replace("/", "_").replace("\0", "_") or "x")
        with target.open("wb") as out:
            while True:
                try:
                    block = member.read(_BLOCK)
                except Exception as error:  # TarError, BadZipFile, zlib.error, OSError, EOFError, RuntimeError
                    return Member(target, name, f"the archive is damaged here ({error})")
                if not block:
                    return Member(target, name)
                out.write(block[: self.left])
                self.left -= len(block)
                if self.left < 0:
                    return Member(target, name, _TOO_LARGE)


def _empty(note: str) -> Member:
    """A member that only says what is wrong with the archive."""
    target = temporary.place("damaged")
    target.touch()
    return Member(target, "", note)


def _inside(name: str) -> str | None:
    """The name, if it stays inside the archive."""
    path = PurePosixPath(name.replace("\\", "/"))
    return None if path.is_absolute() or ".." in path.parts or not path.name else str(path)


def _unpack_tar(path: Path, budget: Budget) -> Iterator[Member]:
    with path.open("rb") as raw:
        packed = compression_of(raw.read(8))
    with Stream(path, packed, budget.limits) as stream:
        tail = _Tail(stream)
        damage = ""
        try:
            with tarfile.open(fileobj=tail, mode="r|", errors="surrogateescape") as tar:  # type: ignore[call-overload]
                for info in tar:
                    name = _inside(info.name) if info.isreg() else None
                    if name is None:
                        continue
                    if damage := budget.file():
                        break
                    member = budget.save(_file_of(tar, info), name)
                    if stream.damage and member.damage:
                        member = Member(member.path, member.name, stream.damage)
                    yield member
                    if member.damage:
                        return
        except Exception as error:  # TarError, OSError, EOFError, ValueError: whatever a broken header leads to
            damage = f"the archive is damaged ({error})"
        if not damage and tail.last.strip(b"\0"):
            damage = "the archive ends without its end mark: it was cut"
        damage = stream.damage or damage
        if damage:
            yield _empty(damage)


def _file_of(tar: tarfile.TarFile, info: tarfile.TarInfo) -> _Readable:
    """The bytes of a member; tarfile's own reader throws away what it has read when the archive ends within it."""
    if info.issparse():
        source = tar.extractfile(info)
        assert source is not None
        return source
    raw: Any = tar.fileobj
    raw.seek(info.offset_data)
    return _Counted(raw, info.size)


def _unpack_zip(path: Path, budget: Budget) -> Iterator[Member]:
    with contextlib.ExitStack() as stack:
        try:
            archive = stack.enter_context(zipfile.ZipFile(path))
            infos = archive.infolist()
        except (zipfile.BadZipFile, OSError, ValueError, struct.error, NotImplementedError) as error:
            yield from _salvage_zip(path, budget, str(error))
            return
        begin = _BUNDLED if {info.filename for info in infos} >= _BUNDLE else ""  # of a bundle, its inputs alone
        for info in infos:
            name = None if info.is_dir() or info.external_attr >> 28 == 0xA else _inside(info.filename)
            if name is None or not name.startswith(begin):
                continue
            if damage := budget.file():
                yield _empty(damage)
                return
            if info.flag_bits & 1:
                yield Member(_empty("").path, name, "it is encrypted and was not read")
                continue
            try:
                source = archive.open(info)
            except Exception as error:  # BadZipFile, NotImplementedError, OSError, struct.error
                yield Member(_empty("").path, name, f"the archive is damaged here ({error})")
                continue
            with source:
                member = budget.save(source, name)
            yield _noted(member) if begin else member
            if budget.left < 0:
                return


def _noted(member: Member) -> Member:
    """A member of a bundle, with a note where its middle was left out."""
    with member.path.open("rb") as raw:
        while block := raw.read(8 << 20):
            if CUT_MARK in block:
                return Member(member.path, member.name, "its middle was left out when the bundle was made")
            if len(block) == 8 << 20:
                raw.seek(-len(CUT_MARK), 1)
    return member


def _salvage_zip(path: Path, budget: Budget, reason: str) -> Iterator[Member]:
    """The members of a zip whose directory is lost, in the order in which they were written."""
    with path.open("rb") as raw:
        while (head := raw.read(30))[:4] == _ZIP[0] and len(head) == 30:
            flags, method = struct.unpack_from("<HH", head, 6)
            size, _, name_size, extra_size = struct.unpack_from("<IIHH", head, 18)
            name = _inside(raw.read(name_size).decode("utf-8", "replace"))
            raw.seek(extra_size, 1)
            deflated = method == 8 and not flags & 1
            if not deflated and (flags & 8 or method):
                break  # neither what it is nor where it ends is known
            if budget.file():
                break
            source: _Readable = _Deflated(raw) if deflated else _Counted(raw, size)
            member = budget.save(source, name or "x")
            if name and name not in _BUNDLE and name != "ticket.md":
                yield member
            if member.damage:
                break
            if flags & 8:
                start = raw.read(4)
                raw.seek(12 if start == _ZIP[2] else 8, 1)
    yield _empty(f"the archive is damaged ({reason}); files may be missing")


class _Counted:
    def __init__(self, raw: IO[bytes], size: int) -> None:
        self._raw, self._left = raw, size

    def read(self, size: int) -> bytes:
        if not self._left:
            return b""
        data = self._raw.read(min(size, self._left))
        self._left -= len(data)
        if not data:
            raise EOFError("the file ends too early")
        return data


class _Deflated:
    """A raw deflate stream of unknown size; leaves the file behind its end."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw, self._inflate = raw, zlib.decompressobj(-15)
        self._data = b""

    def read(self, size: int) -> bytes:
        while not self._inflate.eof:
            self._data = self._data or self._raw.read(1 << 16)
            if not self._data:
                raise EOFError("the file ends too early")
            block = self._inflate.decompress(self._data, size)
            self._data = self._inflate.unconsumed_tail
            if self._inflate.eof:
                self._raw.seek(-len(self._inflate.unused_data), 1)
            if block:
                return block
        return b""
