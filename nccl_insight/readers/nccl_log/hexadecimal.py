"""Hexadecimal numbers as numbers while they wait: no two pointers of millions of calls are alike.

Only what is printed back to the same characters is taken for a number, so nothing is lost.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final

import polars as pl

# Columns by how their numbers begin: glibc's %p and %lx.
PREFIXES: Final[Mapping[str, str]] = {"sendbuff": "0x", "recvbuff": "0x", "stream": "0x", "op_count_hex": ""}
_DIGITS: Final = "(?:0|[1-9a-f][0-9a-f]{0,15})"
_BITS: Final = 16


def packed(column: pl.Series) -> pl.Series | None:
    """A column of :data:`PREFIXES` as numbers (u64); None where one of its texts is not such a number."""
    prefix = PREFIXES.get(column.name)
    if prefix is None or column.dtype != pl.String:
        return None
    fits: bool | None = column.str.contains(f"^{prefix}{_DIGITS}$").all()
    if not fits:
        return None
    digits = column.str.strip_prefix(prefix) if prefix else column
    numbers: pl.Series = digits.str.to_integer(base=16, dtype=pl.UInt64)
    return numbers


def unpacked(column: pl.Series) -> pl.Series:
    """The texts that :func:`packed` took."""
    most = column.max()
    words = max(1, -(-most.bit_length() // _BITS)) if isinstance(most, int) else 1
    parts = [
        _words().gather((column // (1 << (_BITS * at))).cast(pl.UInt64) & ((1 << _BITS) - 1))
        for at in reversed(range(words))
    ]
    joined = pl.select(pl.concat_str(parts).str.strip_chars_start("0").alias("digits"))
    digits = pl.when(pl.col("digits") == "").then(pl.lit("0")).otherwise("digits")
    return joined.select(pl.concat_str(pl.lit(PREFIXES[column.name]), digits).alias(column.name)).to_series()


@cache
def _words() -> pl.Series:
    return pl.Series([f"{number:04x}" for number in range(1 << _BITS)], dtype=pl.String)
