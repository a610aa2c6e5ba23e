"""Redaction of whole files, a few MiB at a time."""

import bz2
import codecs
import contextlib
import gzip
import lzma
from collections.abc import Callable, Iterator
from typing import IO, Any, Final

from nccl_insight.inputs.find import InputFile
from nccl_insight.share.redact.redactor import Redactor

# Files that end so are compressed when they are written, as their names say.
PACKED_SUFFIXES: Final = ("gz", "zst", "xz", "bz2")
_BLOCK = 4 << 20
# Files of Windows: UTF-16, redacted into UTF-8.
_WIDE: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_LONGEST = 16 << 20


def is_text(file: InputFile) -> bool:
    """Whether a file is redacted line by line; databases and pickles are not (:mod:`.binary`)."""
    head = file.head()
    if _wide(head):
        return True
    return b"\0" not in head and not head.startswith((b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"))


def _wide(head: bytes) -> bool:
    return head.startswith(_WIDE) and b"\0" in head


class Blocks:
    """Text of a file in blocks that end with a line; bytes that are no UTF-8 survive a round trip.

    A damaged file gives what could be read; ``damage`` says afterwards what was wrong.
    """

    def __init__(self, file: InputFile) -> None:
        self._file = file
        self.damage = ""

    def __iter__(self) -> Iterator[str]:
        """The blocks in order."""
        rest = b""
        wide = _wide(self._file.head()) and codecs.getincrementaldecoder("utf-16")("replace")
        with self._file.open() as stream:
            while data := stream.read(_BLOCK):
                rest += wide.decode(data).encode("utf-8", "replace") if wide else data
                cut = rest.rfind(b"\n") + 1
                if not cut and len(rest) > _LONGEST:
                    cut = len(rest)
                if cut:
                    yield rest[:cut].decode("utf-8", "surrogateescape")
                    rest = rest[cut:]
            self.damage = stream.damage
        if rest:
            yield rest.decode("utf-8", "surrogateescape")


def write_redacted(
    file: InputFile, redactor: Redactor, out: IO[bytes], name: str, seen: Callable[[str], None] | None = None
) -> str:
    """Writes the redacted file, compressed if its new name says so; what was wrong with the input.

    Args:
        file: a text.
        redactor: what is replaced by what.
        out: where the file goes.
        name: the new name of the file.
        seen: is given every redacted block.
    """
    text = Blocks(file)
    with packed(out, name) as plain:
        for block in text:
            redacted = redactor.text(block)
            plain.write(redacted.encode("utf-8", "surrogateescape"))
            if seen is not None:
                seen(redacted)
    return text.damage


@contextlib.contextmanager
def packed(out: IO[bytes], name: str) -> Iterator[Any]:
    """Compresses what is written to it if the name says so."""
    suffix = name.rpartition(".")[2].lower()
    if suffix == "gz":
        with gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0) as stream:
            yield stream
    elif suffix == "zst":
        import zstandard

        with zstandard.ZstdCompressor(write_checksum=True).stream_writer(out, closefd=False) as stream:
            yield stream
    elif suffix in ("xz", "bz2"):
        with (lzma if suffix == "xz" else bz2).open(out, "wb") as other:
            yield other
    else:
        yield out
