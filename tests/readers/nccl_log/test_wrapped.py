"""Lines that a terminal, a viewer or a mail program broke at its width, put together again."""

from __future__ import annotations

import polars as pl

from nccl_insight.readers.nccl_log.wrapped import unwrapped


def test_lines_of_one_length_are_not_taken_for_wrapped_ones() -> None:
    """Every rank prints the longest line alike, and the program prints something after each."""
    said = "NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal"
    long = [f"n{i}:1{i}:2{i} [{i}] {said}" for i in range(8)]
    text = [part for line in long for part in (line, "loss 2.5")]
    assert unwrapped(pl.Series(text), (1,)).to_list() == text
    row = "float  sum  -1  100.0  1.00  1.88  0  99.0  1.01  1.89  0"
    table = [f"{2**i:>12} {2**i // 4:>13}  {row}" for i in range(9)]
    assert unwrapped(pl.Series(table), (1,)).to_list() == table
