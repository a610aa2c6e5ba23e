"""Decompressed blocks of an input of any size, for readers that stop at a damage."""

from collections.abc import Iterator

from nccl_insight.inputs.find import InputFile


class DamagedStream(Exception):
    """The stream is cut or broken; the message says how. All readable bytes were given before."""


def read_blocks(source: InputFile, block_bytes: int) -> Iterator[bytes]:
    """Blocks of ``block_bytes`` decompressed bytes, the last one shorter.

    Raises DamagedStream: after the last readable byte of a damaged file.
    """
    with source.open() as stream:
        while block := stream.read(block_bytes):
            yield block
        if stream.damage:
            raise DamagedStream(stream.damage)
