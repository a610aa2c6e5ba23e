"""Decompressed blocks of an input of any size. Everything before a damage is given; then the damage is told."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from nccl_insight.inputs.find import InputFile

_RAW_BYTES: Final = 512 * 1024


class DamagedStream(Exception):
    """The compressed stream is cut or broken; the message says how. All readable bytes were given before."""


def read_blocks(source: InputFile, block_bytes: int) -> Iterator[bytes]:
    """Blocks of at most about ``block_bytes`` decompressed bytes.

    Raises:
        DamagedStream: after the last readable byte of a damaged file.
    """
    if source.compression == "gzip":
        yield from _gzip_blocks(source.path, block_bytes)
        return
    try:
        with source.open() as stream:
            while block := stream.read(block_bytes):
                yield block
    except OSError as error:
        raise DamagedStream(f"cannot be read further ({error.strerror or error})") from error
    except Exception as error:  # zstandard.ZstdError, of a package that is imported only where it is used
        raise DamagedStream(f"the compressed stream is damaged ({error})") from error


def _gzip_blocks(path: Path, block_bytes: int) -> Iterator[bytes]:
    """Own loop over zlib: GzipFile throws away what it had decompressed before a damage."""
    with path.open("rb") as raw:
        inflate = zlib.decompressobj(wbits=31)
        data, started, trailing = b"", False, False
        while True:
            if not data:
                data = raw.read(_RAW_BYTES)
                if not data:
                    break
            if trailing:
                data = data.lstrip(b"\0")
                if not data:
                    continue
                if data[:1] != b"\x1f":
                    raise DamagedStream("bytes that are not gzip follow the compressed data")
                inflate, trailing = zlib.decompressobj(wbits=31), False
            started = True
            try:
                block = inflate.decompress(data, block_bytes)
            except zlib.error as error:
                raise DamagedStream(f"the compressed stream is damaged ({error})") from error
            data = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
            trailing = inflate.eof
            if block:
                yield block
        if started and not inflate.eof:
            if rest := inflate.flush():
                yield rest
            raise DamagedStream("the compressed stream ends too early")
