"""Protocol buffers' wire format, as far as readers need it: fields of a message, without any schema.

Format: "Encoding" in the documentation of Protocol Buffers. A field is a number and a wire type: varint (0), eight
bytes (1), bytes (2), four bytes (5); groups (3, 4) are not used any more and count as damage.
"""

from collections.abc import Iterator
from typing import Final

_MOST_VARINT_BYTES: Final = 10
_MASK: Final = (1 << 64) - 1


class DamagedMessage(Exception):
    """A message is cut or is none; the fields before the damage were given."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The unsigned number at a place, and the place behind it.

    Raises DamagedMessage: the data ends within it, or it has more than ten bytes.
    """
    value = shift = 0
    try:
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & _MASK, at
            shift += 7
            if shift >= 7 * _MOST_VARINT_BYTES:
                raise DamagedMessage(f"a number at byte {at:,} has no end")
    except IndexError:
        raise DamagedMessage(f"the data ends within a number at byte {at:,}") from None


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a message, in order: varints as numbers, anything else as bytes.

    Raises DamagedMessage: after the last whole field, when the data is cut or is no message.
    """
    at, end = 0, len(data)
    while at < end:
        key = data[at]
        at += 1
        if key >= 0x80:
            key, at = varint(data, at - 1)
        kind = key & 7
        if kind == 0:
            value: int | bytes = data[at] if at < end else 0x80
            at += 1
            if isinstance(value, int) and value >= 0x80:
                value, at = varint(data, at - 1)
            yield key >> 3, value
            continue
        if kind == 2:
            length, at = varint(data, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise DamagedMessage(f"a field of unknown type {kind} at byte {at:,}")
        if length > end - at:
            raise DamagedMessage(f"a field of {length:,} bytes at byte {at:,} ends after the data")
        yield key >> 3, data[at : at + length]
        at += length


def signed(value: int) -> int:
    """A varint as the signed 64-bit number that it stands for."""
    return value - (1 << 64) if value >> 63 else value
