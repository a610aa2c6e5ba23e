"""The ``errors`` table: WARN, ABORT and DIAG records, failing result traces, watchdog lines.

A WARN that no grammar rule knows is still a row (``message`` null, ``family`` ``other``): a warning is never lost.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from nccl_insight.tables.assemble.base import POSITION, column


def error_rows(known: pl.DataFrame | None, loud: Sequence[pl.DataFrame]) -> pl.DataFrame | None:
    """Rows in reading order, with ``family`` filled and ``function`` taken out of ``_source``."""
    parts = [known] if known is not None else []
    parts += [frame.with_columns(POSITION) for frame in loud]
    if not parts:
        return None
    rows = pl.concat(parts, how="diagonal_relaxed").sort("_pos", maintain_order=True)
    function = pl.coalesce(
        column(rows, "function", pl.String), pl.col("_source").str.extract(r"\(([^()]*)\)$")
    )
    family = column(rows, "family", pl.String).fill_null("other")
    return rows.with_columns(
        family=family,
        function=function,
        _source=pl.col("_source").str.replace(r" \([^()]*\)$", ""),
    )
