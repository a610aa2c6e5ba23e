"""The bytes of an input: one way to read for all readers, whatever the compression. Damage is a value.

A :class:`Stream` never raises for what a file holds. It ends, everything before the damage has been given, and
``damage`` says what was wrong: cut, broken, larger than the limits, not readable. Bounded in memory: a block of
output at a time, whatever a few bytes of input ask for.
"""

import io
import os
import zlib
from collections.abc import Callable, Generator
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

from nccl_insight.inputs.limits import DEFAULT, Limits
from nccl_insight.inputs.remote import Remote

MAGIC: Final = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd", "xz": b"\xfd7zXZ\x00", "bzip2": b"BZh"}
_RAW_BYTES: Final = 256 * 1024
_BLOCK: Final = 1 << 20
_STEP: Final = 4096
_SHORT: Final = "the compressed stream ends too early"
_TRAILING: Final = "bytes of another kind follow the compressed data"
_EMPTY: Final = "thousands of empty members follow each other; the rest was not read"
# Writers of logs flush now and then; each member costs a decoder and a copy of what is behind it.
_MOST_EMPTY: Final = 2_000
_XZ_MEMORY: Final = 256 << 20
_ZSTD_BLOCK: Final = 128 * 1024

# Yields decompressed blocks; its value is the damage, empty for a whole stream.
_Blocks: TypeAlias = Generator[bytes, None, str]


def _broken(error: Exception) -> str:
    return f"the compressed stream is damaged ({error})"


def compression_of(head: bytes) -> str:
    """``gzip``, ``zstd``, ``xz``, ``bzip2`` or nothing, by the first bytes of a file."""
    for name, magic in MAGIC.items():
        if head.startswith(magic) and (name != "bzip2" or head[3:4].isdigit()):
            return name
    return "zstd" if _skippable(head) else ""


def checked(raw: IO[bytes]) -> bool | None:
    """Whether the stream from here on holds a checksum of its text; ``None`` where it is not compressed.

    Reads the head alone: of zstd the flag of its first frame (RFC 8878, 3.1.1.1.1), of xz the kind of check in the
    flags of the stream (The .xz File Format, 2.1.1.2). gzip and bzip2 always have one. Raises OSError.
    """
    head = raw.read(8)
    kind = compression_of(head)
    if kind == "zstd":
        while _skippable(head) and len(head) == 8:
            raw.seek(int.from_bytes(head[4:], "little"), os.SEEK_CUR)
            head = raw.read(8)
        return head[:4] != MAGIC["zstd"] or len(head) < 5 or bool(head[4] >> 2 & 1)
    if kind == "xz":
        return len(head) < 8 or bool(head[7] & 0xF)
    return True if kind else None


def _skippable(head: bytes) -> bool:
    """A frame of zstd that holds no data; what pzstd writes begins with one."""
    return head[1:4] == b"\x2a\x4d\x18" and head[0] >> 4 == 5


def _gzip(raw: IO[bytes]) -> _Blocks:
    inflate = zlib.decompressobj(wbits=31)
    data, ended, empty = b"", False, 0
    while True:
        data = data or raw.read(_RAW_BYTES)
        if not data:
            break
        if ended:
            data = data.lstrip(b"\0")  # tapes pad with zeros
            if not data:
                continue
            if data[:1] != b"\x1f":
                return _TRAILING
            if empty > _MOST_EMPTY:
                return _EMPTY
            inflate, ended, empty = zlib.decompressobj(wbits=31), False, empty + 1
        before = inflate.copy()
        try:
            block = inflate.decompress(data, _BLOCK)
        except zlib.error as error:
            yield from _until_error(before, data)
            return _broken(error)
        ended = inflate.eof
        data = inflate.unused_data if ended else inflate.unconsumed_tail
        if block:
            empty = 0
            yield block
    if ended:
        return ""
    if rest := inflate.flush():
        yield rest
    return _SHORT


def _until_error(inflate: Any, data: bytes) -> Generator[bytes, None, None]:
    """The same again in small steps: zlib throws away what a call had inflated before it met the damage."""
    try:
        while data:
            block = inflate.decompress(data, _STEP)
            data = inflate.unconsumed_tail
            if not block:
                return
            yield block
    except zlib.error:
        return


def _zstd(raw: IO[bytes]) -> _Blocks:
    """Frame by frame and block by block, as RFC 8878 describes them.

    The library's own reader takes a frame that is cut for a whole one; and a block is the most that a piece of input
    can become, so that memory stays bounded.
    """
    import zstandard

    while magic := raw.read(4):
        if len(magic) < 4:
            return _SHORT
        if _skippable(magic):
            size = raw.read(4)
            if len(size) < 4:
                return _SHORT
            left = int.from_bytes(size, "little")
            while left:
                skipped = len(raw.read(min(left, _RAW_BYTES)))
                if not skipped:
                    return _SHORT
                left -= skipped
            continue
        if magic != MAGIC["zstd"]:
            return _TRAILING
        try:
            if not (yield from _zstd_frame(raw, zstandard.ZstdDecompressor().decompressobj())):
                return _SHORT
        except (zstandard.ZstdError, ValueError) as error:
            return _broken(error)
    return ""


def _zstd_frame(raw: IO[bytes], frame: Any) -> Generator[bytes, None, bool]:
    """Blocks of a frame behind its magic number; the value tells whether the frame is whole."""
    flags = raw.read(1)
    if not flags:
        return False
    single = flags[0] >> 5 & 1
    size = (not single) + (0, 1, 2, 4)[flags[0] & 3] + (single, 2, 4, 8)[flags[0] >> 6]
    header = raw.read(size)
    if len(header) < size:
        return False
    frame.decompress(MAGIC["zstd"] + flags + header)
    last = False
    while not last:
        start = raw.read(3)
        if len(start) < 3:
            return False
        value = int.from_bytes(start, "little")
        last, kind, size = bool(value & 1), value >> 1 & 3, value >> 3
        if kind == 3 or size > _ZSTD_BLOCK:
            raise ValueError("a block of a kind or size that does not exist")
        size = 1 if kind == 1 else size
        body = raw.read(size)
        if len(body) < size:
            return False
        if block := frame.decompress(start + body):
            yield block
    if flags[0] >> 2 & 1:
        checksum = raw.read(4)
        if len(checksum) < 4:
            return False
        if block := frame.decompress(checksum):
            yield block
    return True


def _several(raw: IO[bytes], make: Callable[[], Any], magic: bytes) -> _Blocks:
    """Streams of xz or bzip2, one behind the other."""
    data = raw.read(_RAW_BYTES)
    empty = 0
    while data:
        if not data.startswith(magic):
            return "" if not data.strip(b"\0") else _TRAILING
        if empty > _MOST_EMPTY:
            return _EMPTY
        empty += 1
        unpack = make()
        while not unpack.eof:
            if unpack.needs_input and not (data := data or raw.read(_RAW_BYTES)):
                return _SHORT
            try:
                block = unpack.decompress(data, _BLOCK)
            except Exception as error:  # LZMAError, OSError, EOFError, ValueError: one kind per library
                return _broken(error)
            data = b""
            if block:
                empty = 0
                yield block
        data = unpack.unused_data
        data += raw.read(_RAW_BYTES - len(data) if len(data) < _RAW_BYTES else 0)
    return ""


def _xz(raw: IO[bytes]) -> _Blocks:
    import lzma

    return _several(raw, lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY), MAGIC["xz"])


def _bzip2(raw: IO[bytes]) -> _Blocks:
    import bz2

    return _several(raw, bz2.BZ2Decompressor, MAGIC["bzip2"])


_UNPACK: Final[dict[str, Callable[[IO[bytes]], _Blocks]]] = {"gzip": _gzip, "zstd": _zstd, "xz": _xz, "bzip2": _bzip2}


class Stream(io.RawIOBase):
    """Decompressed bytes of a file. ``damage`` is empty until the stream ends early, then it says why.

    Seeking forward reads, seeking back begins anew where the file is compressed.
    """

    def __init__(
        self, path: Path | Remote, compression: str = "", limits: Limits = DEFAULT, known_damage: str = ""
    ) -> None:
        super().__init__()
        self.damage = ""
        self._known = known_damage
        self._compression = compression
        self._limits = limits
        self._raw: IO[bytes] = io.BytesIO()
        self._size = 0
        try:
            if isinstance(path, Remote):
                self._raw, self._size = path.open(), path.size_bytes or 0
            else:
                self._raw = path.open("rb", buffering=_RAW_BYTES if compression else -1)
                self._size = os.fstat(self._raw.fileno()).st_size
        except OSError as error:
            self.damage = self._known or f"it cannot be opened ({error.strerror or error})"
            self._compression = ""
        self._begin()

    def _begin(self) -> None:
        self._at = 0
        self._held = memoryview(b"")
        self._blocks = _UNPACK[self._compression](self._raw) if self._compression else None
        if self._compression:
            self._most = self._limits.expanded_bytes(self._size)

    @property
    def packed(self) -> bool:
        """Whether the bytes are decompressed on the way, so that going back costs a new beginning."""
        return self._blocks is not None

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always; see the class for what it costs."""
        return True

    def close(self) -> None:
        """Closes the file."""
        self._raw.close()
        super().close()

    def _end(self, damage: str) -> None:
        self.damage = self.damage or damage or self._known

    def _block(self) -> memoryview:
        """What is held, or the next block; empty at the end."""
        if self._held or self._blocks is None:
            return self._held
        try:
            block = next(self._blocks)
        except StopIteration as end:
            self._end(end.value)
            return self._held
        except OSError as error:
            self._end(f"it cannot be read further ({error.strerror or error})")
            return self._held
        left = self._most - self._at
        if len(block) > left:
            self._end(
                f"it expands to more than {self._most >> 20:,} MiB (limits expansion-ratio and "
                "expansion-free-mib); the rest was not read"
            )
            block = block[: max(left, 0)]
            self._blocks.close()
        self._held = memoryview(block)
        return self._held

    def read(self, size: int = -1) -> bytes:  # type: ignore[override, unused-ignore]
        """That many bytes, fewer only at the end; all of them for a negative number."""
        if self._blocks is None:
            try:
                data = self._raw.read(size)
            except (OSError, ValueError) as error:
                self._end(f"it cannot be read further ({getattr(error, 'strerror', None) or error})")
                return b""
            if size < 0 or len(data) < size:
                self._end("")
            return data
        parts: list[memoryview] = []
        left = size
        while left and (block := self._block()):
            part = block[:left] if left > 0 else block
            parts.append(part)
            self._held = block[len(part) :]
            self._at += len(part)
            left -= len(part) if left > 0 else 0
        return b"".join(parts)

    def readall(self) -> bytes:
        """All that is left."""
        return self.read(-1)

    def readinto(self, buffer: Any) -> int:
        """Fills as much of the buffer as is at hand; 0 at the end."""
        if self._blocks is None:
            try:
                count: int = self._raw.readinto(buffer)  # type: ignore[attr-defined]
            except (OSError, ValueError) as error:
                self._end(f"it cannot be read further ({getattr(error, 'strerror', None) or error})")
                return 0
            if not count:
                self._end("")
            return count
        view = memoryview(buffer).cast("B")
        block = self._block()[: len(view)]
        view[: len(block)] = block
        self._held = self._held[len(block) :]
        self._at += len(block)
        return len(block)

    readinto1 = readinto

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Goes to a byte of the decompressed data, or as far as there is any."""
        if self._blocks is None:
            return self._raw.seek(offset, whence)
        if whence != os.SEEK_SET:
            raise io.UnsupportedOperation("only positions from the start")
        if offset < self._at:
            self._raw.seek(0)
            self._begin()
        while self._at < offset and (block := self._block()):
            skipped = min(len(block), offset - self._at)
            self._held = block[skipped:]
            self._at += skipped
        return self._at

    def tell(self) -> int:
        """Position in the decompressed data."""
        return self._raw.tell() if self._blocks is None else self._at
