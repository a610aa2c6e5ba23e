"""Connections that were closed while NCCL was accepting them, told from peers that went away."""

from __future__ import annotations

from typing import Final

import polars as pl

from nccl_insight.facts.errors import CONSEQUENCE, causes, present
from nccl_insight.facts.topics import told
from nccl_insight.rules._faults import STARTUP
from nccl_insight.tables.run import Run

_FRAMES: Final = 3
_SCHEMA: Final = {"input_id": pl.UInt16, "line": pl.UInt64}


def accepting(run: Run) -> pl.DataFrame:
    """``input_id, line`` of closed connections whose trace goes through the code that accepts connections.

    Receiving goes through one or two functions of socket.cc before bootstrap.cc, accepting through at least three.
    None when the log holds a failure that ends ranks during start: then it is that rank that went away.
    """
    return run.memo("rules.accepting", _accepting)


def _accepting(run: Run) -> pl.DataFrame:
    rows = causes(run).filter(pl.col("cause").is_in(["peer-died", CONSEQUENCE]))
    if rows.is_empty() or not (rows["cause"] == "peer-died").any() or present(run) & set(STARTUP):
        return pl.DataFrame(schema=_SCHEMA)
    process = ["input_id", "host", "pid", "tid"]
    marked = (
        rows.select(*process, "line", "cause", told(rows, "trail").alias("trail"))
        .with_columns((pl.col("cause") == "peer-died").cum_sum().over(process).alias("nth"))
        .filter(pl.col("nth") > 0)
    )
    frame = (pl.col("trail") == "socket").fill_null(False)
    boot = (pl.col("trail") == "bootstrap").fill_null(False)
    before = boot.cast(pl.Int32).cum_sum() == 0
    return (
        marked.group_by(*process, "nth", maintain_order=True)
        .agg(
            pl.col("line").first(),
            (frame & before).sum().alias("frames"),
            boot.any().alias("bootstrap"),
        )
        .filter((pl.col("frames") >= _FRAMES) & pl.col("bootstrap"))
        .select("input_id", "line")
    )
