"""Checks of results that programs print themselves: what they expected of a collective, and what they got.

Test scripts check a collective with known values (the sum of all ranks, the number of the sender). A line counts only
where it names a collective or a sending rank beside two numbers that differ.
"""

from typing import Final

import polars as pl

from nccl_insight.base import texts
from nccl_insight.tables.schema import of_input

SCHEMA: Final = of_input("value_checks")
SIGNS: Final = ("xpected", "XPECTED")
_PATTERNS: Final = texts.patterns(__file__)
_PAIR: Final = _PATTERNS["pair"]
_TURNED: Final = _PATTERNS["turned"]
_ABOUT: Final = _PATTERNS["about"]
# The check of vLLM's troubleshooting guide and of many others: the sum of ones over all ranks.
_ASSERTED: Final = _PATTERNS["asserted"]
# Who reports: a rank at the beginning of the line; "from rank 1" is the sender.
_RANK: Final = _PATTERNS["rank"]


def check_lines(text: pl.Expr) -> pl.Expr:
    """Whether a line may report a value that was checked (a cheap test with few false hits)."""
    return text.str.contains_any(list(SIGNS)) & _checked(text)


def _checked(text: pl.Expr) -> pl.Expr:
    return text.str.contains(_ABOUT) | text.str.contains(_ASSERTED)


def scan_lines(lines: pl.DataFrame) -> pl.DataFrame:
    """Wrong values in ``lines`` (``line``, ``text``), one row for each line (columns as ``SCHEMA``)."""
    near = lines.filter(pl.col("text").str.contains_any(list(SIGNS)))
    # Asked first because the patterns take milliseconds to compile, and each of thousands of inputs is asked.
    if near.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    near = near.filter(_checked(pl.col("text")))
    text = pl.col("text").str.slice(0, 2000)
    pair, turned = text.str.extract_groups(_PAIR).struct, text.str.extract_groups(_TURNED).struct
    return (
        near.with_columns(
            pl.coalesce(pair.field("1"), turned.field("2")).cast(pl.Float64, strict=False).alias("expected"),
            pl.coalesce(pair.field("2"), turned.field("1")).cast(pl.Float64, strict=False).alias("observed"),
            text.str.contains(_ASSERTED).alias("assertion"),
            text.str.extract(_RANK).cast(pl.Int32, strict=False).alias("rank"),
        )
        .filter(pl.col("expected") != pl.col("observed"))
        .with_columns(pl.col("text").str.strip_chars().str.slice(0, 300))
        .select(pl.col(c).cast(t) for c, t in SCHEMA.items())
    )
