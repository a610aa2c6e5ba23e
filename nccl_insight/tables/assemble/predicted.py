"""The table ``predicted``: how long NCCL's own model expects an operation to take.

From ``Input: {``, ``Best tuning {``, ``Best tuning, algorithm`` (2.31 and later, every rank) and the ``time`` of the
choices of 2.20 to 2.23 (rank 0). A thread asks two or three times for one call, nested; an answer counts for the last
question of its thread, and answers that leave latency out (``numPipesOps`` 0) are left out.
"""

from __future__ import annotations

import polars as pl

from nccl_insight.tables.assemble.base import column

_THREAD = ("input_id", "_host", "_pid", "_tid")
_NO_COPY_ENGINE = 2


def answers(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of ``predicted`` from the messages of the tuning model in reading order."""
    step = column(rows, "step", pl.String)
    kinds = {
        "op": pl.String, "size_bytes": pl.Int64, "comm": pl.String, "n_pipe_ops": pl.Int64,
        "time_us": pl.Float64, "algorithm": pl.String, "protocol": pl.String, "kernel": pl.String,
        "n_channels": pl.Int64, "ce_method": pl.Int64, "tuning_valid": pl.Int64,
    }  # fmt: skip
    known = rows.with_columns(column(rows, name, dtype) for name, dtype in kinds.items())
    asked = [
        pl.when(step == "question").then(pl.col(c)).forward_fill().over(_THREAD)
        for c in ("op", "size_bytes", "comm", "n_pipe_ops")
    ]
    known = known.with_columns(*asked, _chosen=(step == "choice").shift(-1).over(_THREAD).fill_null(False))
    return known.filter(
        (step == "answer")
        & (pl.col("tuning_valid") != 0)
        & (pl.col("_chosen") | (pl.col("n_pipe_ops") > 0) | (pl.col("kernel") != "Unknown"))
    ).select(
        "input_id",
        "_line",
        *_THREAD[1:],
        "_pos",
        *(c for c in ("_dev", "_sub") if c in known.columns),
        "comm",
        "op",
        "size_bytes",
        pl.when(pl.col("kernel") != "Unknown").then(pl.lit("Symmetric"))
        .when(pl.col("ce_method") != _NO_COPY_ENGINE).then(pl.lit("CopyEngine"))
        .otherwise(pl.col("algorithm")).alias("algorithm"),
        "protocol",
        pl.when(pl.col("kernel") != "Unknown").then(pl.col("kernel")).alias("kernel"),
        pl.col("n_channels").alias("channels"),
        (pl.col("time_us") * 1000).alias("predicted_ns"),
        pl.col("_chosen").alias("chosen"),
    )  # fmt: skip


def choices(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of ``predicted`` from choices that tell their time (2.20 to 2.23); ``rows`` is ``tuning_choice``."""
    timed = rows.filter(pl.col("time_us") > 0)
    return timed.select(
        "input_id", "line", "comm_id", "host", "pid", "op", "size_bytes", "algorithm", "protocol",
        predicted_ns=pl.col("time_us") * 1000, chosen=pl.lit(True),
    )  # fmt: skip
