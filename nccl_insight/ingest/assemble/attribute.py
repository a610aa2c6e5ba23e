"""Which communicator does a line without a communicator belong to?

Lines of one thread belong to the init that the thread is in: from its Init START (2.18+), or, where older versions
print only Init COMPLETE, from the thread's previous completion on. A line of a thread that never ran an init
belongs to the latest init of the same process and device, then of the process.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from nccl_insight.ingest.assemble.comms import asof, resolve

_KEYS: Final = (
    ["input_id", "_host", "_pid", "_tid", "_dev"],
    ["input_id", "_host", "_pid", "_tid"],
    ["input_id", "_host", "_pid", "_dev"],
    ["input_id", "_host", "_pid"],
    ["_host", "_pid"],
)


def _intervals(ranks: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Where each rank's life begins for lines of a key: its start, or behind the previous completion."""
    ordered = ranks.sort("_pos")
    previous = pl.col("_done").shift(1).over(by).fill_null(0) + 1
    begin = pl.when(pl.col("_started")).then(pl.col("_pos")).otherwise(previous)
    return ordered.with_columns(_begin=begin).select(
        *by, pl.col("_begin").cast(pl.UInt64).alias("_pos"), "comm_id", pl.col("rank").alias("_rank")
    )


def attribute(rows: pl.DataFrame, ranks: pl.DataFrame) -> pl.DataFrame:
    """Adds ``comm_id`` and, where the message has none, ``rank`` (of the process that printed the line)."""
    has_pointer = "comm" in rows.columns
    base = rows.with_row_index("_row")
    if not ranks.height:
        out = base.drop("_row").with_columns(
            comm_id=pl.lit(None, pl.String), _own_rank=pl.lit(None, pl.Int32)
        )
        return out if "rank" in out.columns else out.rename({"_own_rank": "rank"})
    starts = ranks.with_columns(
        _started=pl.col("init_started") & (pl.col("_done").is_null() | (pl.col("_done") > pl.col("_pos")))
    )
    found: list[pl.DataFrame] = []
    missing = base.select("_row", "_pos", "input_id", "_host", "_pid", "_tid", "_dev")
    for by in _KEYS:
        if not missing.height:
            break
        hit = asof(missing, _intervals(starts, by), by).filter(pl.col("comm_id").is_not_null())
        found.append(hit.select("_row", "comm_id", "_rank"))
        missing = missing.join(hit.select("_row"), on="_row", how="anti")
    owned = (
        pl.concat(found)
        if found
        else pl.DataFrame(schema={"_row": pl.UInt32, "comm_id": pl.String, "_rank": pl.Int32})
    )
    out = (
        base.drop("comm_id", strict=False)
        .join(owned, on="_row", how="left", maintain_order="left")
        .drop("_row")
    )
    if has_pointer:
        pointed = resolve(out.select("input_id", "_host", "_pid", "_pos", "comm"), ranks, "comm")
        out = out.with_columns(comm_id=pl.coalesce(pointed["comm_id"], pl.col("comm_id")))
    out = out.rename({"_rank": "_own_rank"})
    own = pl.col("_own_rank")
    return out.with_columns(rank=pl.coalesce("rank", own) if "rank" in out.columns else own)
