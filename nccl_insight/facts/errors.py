"""The ``errors`` table with one more column: ``cause``, the diagnosis that a line is evidence of.

The grammar gives every known message a family; this view decides the finer cases that depend on captured
text (which CUDA error, which errno, which file) and catches wordings that no grammar rule knows.
Values that are no diagnosis: ``benign`` (known to be harmless), ``consequence`` (a step on the way out after
a failure: result traces, proxy failures), ``alloc-failed`` and ``shm-failed`` (say that, but not why),
``other``.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from nccl_insight.facts._cause_patterns import BENIGN, CONSEQUENCE, OTHER, PATTERNS
from nccl_insight.tables.run import Run
from nccl_insight.tables.schema import is_loud

TRACE: Final = r" -> -?[0-9]+( \[[^\]]*\])?\s*$"

# What differs between lines of one kind and decides nothing: ports, addresses, pointers, positions.
_PLACES: Final = r"<[0-9]+>|0x[0-9a-fA-F]+|[0-9]{1,3}(?:\.[0-9]{1,3}){3}"


def _named(frame: pl.DataFrame) -> pl.DataFrame:
    text, source = pl.col("_text").fill_null(""), pl.col("source").fill_null("")
    quiet = pl.col("level") == "INFO"
    # What CUDA or the OS answered at level INFO was expected by NCCL, which went on without it.
    ignored = r"Cuda failure|nvml\w+\(.*\) failed|NVML failure"
    trace = text.str.contains(TRACE) & ~text.str.contains("via ")
    chain = (
        pl.when(trace).then(pl.lit(CONSEQUENCE)).when(quiet & text.str.contains(ignored)).then(pl.lit(BENIGN))
    )
    for cause, pattern, where in PATTERNS:
        match = text.str.contains(pattern)
        chain = chain.when(match & source.str.contains(where) if where else match).then(pl.lit(cause))
    family = pl.when(pl.col("family") == OTHER).then(None).otherwise(pl.col("family"))
    return frame.with_columns(chain.otherwise(pl.coalesce(family, pl.lit(OTHER))).alias("cause"))


def _build(run: Run) -> pl.DataFrame:
    keys = ["_text", "source", "level", "family"]
    errors = run.table("errors").with_columns(pl.col("text").str.replace_all(_PLACES, "#").alias("_text"))
    kinds = _named(errors.select(keys).unique())
    return (
        errors.with_row_index("_at")
        .join(kinds, on=keys, how="left", nulls_equal=True)
        .sort("_at")
        .drop("_at", "_text")
        .with_columns(
            pl.col("cause").fill_null(OTHER),
            (is_loud(pl.col("level")) | pl.col("level").is_null()).alias("loud"),
        )
    )


def causes(run: Run) -> pl.DataFrame:
    """``errors`` in reading order plus ``cause`` (str) and ``loud`` (bool: WARN or worse, or no level known)."""
    return run.memo("errors.causes", _build)


def present(run: Run) -> frozenset[str]:
    """All causes that occur."""
    return run.memo("errors.present", lambda r: frozenset(causes(r)["cause"].unique()))
