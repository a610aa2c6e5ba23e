"""Redaction of whole files, a few MiB at a time."""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.inputs.find import InputFile
from nccl_insight.redact.redactor import Redactor

_BLOCK = 4 << 20
_LONGEST = 16 << 20


def is_text(file: InputFile) -> bool:
    """Whether a file can be redacted at all: databases and pickles cannot."""
    head = file.head()
    return b"\0" not in head and not head.startswith((b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"))


def blocks(file: InputFile) -> Iterator[str]:
    """Text of a file in blocks that end with a line; bytes that are no UTF-8 survive a round trip.

    A damaged file gives what could be read.
    """
    rest = b""
    with file.open() as stream:
        while data := stream.read(_BLOCK):
            rest += data
            cut = rest.rfind(b"\n") + 1
            if not cut and len(rest) > _LONGEST:
                cut = len(rest)
            if cut:
                yield rest[:cut].decode("utf-8", "surrogateescape")
                rest = rest[cut:]
    if rest:
        yield rest.decode("utf-8", "surrogateescape")


def redacted_blocks(file: InputFile, redactor: Redactor) -> Iterator[bytes]:
    """The redacted bytes of a file."""
    for block in blocks(file):
        yield redactor.text(block).encode("utf-8", "surrogateescape")
