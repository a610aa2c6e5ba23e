"""The ``errors`` table: WARN, ABORT and DIAG records, failing result traces, watchdog lines.

A WARN that no grammar rule knows is still a row (``message`` null, ``diagnosis`` ``unexplained-failure``): a warning
is never lost. ``family`` is the older name of ``diagnosis``, with ``other`` where it had none.
"""

from collections.abc import Sequence

import polars as pl

from nccl_insight.loading.assemble.base import POSITION, column
from nccl_insight.tables.normalise.ends import UNEXPLAINED


def error_rows(known: pl.DataFrame | None, loud: Sequence[pl.DataFrame]) -> pl.DataFrame | None:
    """Rows in reading order, with ``diagnosis`` and ``role`` filled and ``function`` taken out of ``_source``.

    A row of ``known`` without a diagnosis reports nothing (``=> -`` in the grammar) and is left out.
    """
    if known is not None and "diagnosis" in known.columns:
        known = known.filter(pl.col("diagnosis").is_not_null())
    parts = [known] if known is not None else []
    parts += [frame.with_columns(POSITION) for frame in loud]
    if not parts:
        return None
    rows = pl.concat(parts, how="diagonal_relaxed").sort("_pos", maintain_order=True)
    function = pl.coalesce(column(rows, "function", pl.String), pl.col("_source").str.extract(r"\(([^()]*)\)$"))
    diagnosis = column(rows, "diagnosis", pl.String).fill_null(UNEXPLAINED)
    return rows.with_columns(
        diagnosis=diagnosis,
        family=pl.when(diagnosis == UNEXPLAINED).then(pl.lit("other")).otherwise(diagnosis),
        role=column(rows, "role", pl.String).fill_null("root"),
        function=function,
        _source=pl.col("_source").str.replace(r" \([^()]*\)$", ""),
    )
