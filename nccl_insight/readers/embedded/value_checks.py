"""Checks of results that programs print themselves: what they expected of a collective, and what they got.

Test scripts check a collective with known values (the sum of all ranks, the number of the sender). A line counts only
where it names a collective or a sending rank beside two numbers that differ.
"""

from typing import Final

import polars as pl

from nccl_insight.tables.schema import of_input

SCHEMA: Final = of_input("value_checks")
SIGNS: Final = ("xpected", "XPECTED")
_NUMBER: Final = r"(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
_GAP: Final = r"[\s,;:)\]|.]{1,6}"
_PAIR: Final = (
    rf"(?i)\bexpected(?: value)?[:= ]{{1,3}}{_NUMBER}{_GAP}(?:but )?"
    rf"(?:got|actual(?:ly)?|received|found|was|result|value)(?: value)?[:= ]{{1,3}}{_NUMBER}(?:[^0-9.eE]|$)"
)
_TURNED: Final = (
    rf"(?i)\b(?:got|actual|received|result)[:= ]{{1,3}}{_NUMBER}{_GAP}(?:but )?expected(?: value)?[:= ]{{1,3}}{_NUMBER}"
    r"(?:[^0-9.eE]|$)"
)
_ABOUT: Final = (
    r"(?i)all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|\bfrom rank [0-9]|\bsendrecv\b"
    r"|\bcollective\b"
)
# The check of vLLM's troubleshooting guide and of many others: the sum of ones over all ranks.
_ASSERTED: Final = r"AssertionError: Expected [0-9]{1,6}, (?:but )?got -?[0-9.]+$"
# Who reports: a rank at the beginning of the line; "from rank 1" is the sender.
_RANK: Final = r"(?i)^[\s\[(]{0,8}rank[ :=]*([0-9]{1,7})"


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
