"""The table ``predicted``: how long NCCL's own model expects an operation to take.

From ``Input: {``, ``Best tuning {``, ``Best tuning, algorithm`` (2.31 and later, every rank), the ``time`` of the
choices of 2.20 to 2.23 (rank 0), and the table of latencies and bandwidths that rank 0 prints after init: what it
means for the operations and sizes that the job used, for every algorithm and protocol. A thread asks two or three
times for one call, nested; an answer counts for the last question of its thread, and answers that leave latency out
(``numPipesOps`` 0) are left out.
"""

from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from nccl_insight.advise.expect.tuning import Cost, Job, printed, time_us
from nccl_insight.loading.assemble.base import column
from nccl_insight.tables.declared import frame

ANSWER: Final = "answer"
CHOICE: Final = "choice"
TABLE: Final = "table"
# Operations and sizes that the table is worked out for.
_MOST: Final = 4096
# The model asks for the GPU's generation at one place only (large AllReduce over several nodes): 8.0 and later.
_CAPABILITY: Final = 80
# The choice names the bytes of one rank, the model counts those of all (ncclFuncMaxSendRecvCount).
_OF_ONE_RANK: Final = ("AllGather", "ReduceScatter")
_THREAD = ("input_id", "_host", "_pid", "_tid")
_NO_COPY_ENGINE = 2


def answers(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of ``predicted`` from the messages of the tuning model in reading order."""
    step = column(rows, "step", pl.String)
    kinds = frame("""op str, size_bytes i64, comm str, n_pipe_ops i64, time_us f64, algorithm str, protocol str,
        kernel str, n_channels i64, ce_method i64, tuning_valid i64""")
    known = rows.with_columns(column(rows, name, dtype) for name, dtype in kinds.items())
    of_question = [
        pl.when(step == "question").then(pl.col(c)).forward_fill().over(_THREAD)
        for c in ("op", "size_bytes", "comm", "n_pipe_ops")
    ]
    known = known.with_columns(*of_question, _chosen=(step == "choice").shift(-1).over(_THREAD).fill_null(False))
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
        pl.when(pl.col("kernel") != "Unknown")
        .then(pl.lit("Symmetric"))
        .when(pl.col("ce_method") != _NO_COPY_ENGINE)
        .then(pl.lit("CopyEngine"))
        .otherwise(pl.col("algorithm"))
        .alias("algorithm"),
        "protocol",
        pl.when(pl.col("kernel") != "Unknown").then(pl.col("kernel")).alias("kernel"),
        pl.col("n_channels").alias("channels"),
        (pl.col("time_us") * 1000).alias("predicted_ns"),
        pl.col("_chosen").alias("chosen"),
        pl.lit(ANSWER).alias("source"),
    )


def choices(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of ``predicted`` from choices that tell their time (2.20 to 2.23); ``rows`` is ``tuning_choice``."""
    timed = rows.filter(pl.col("time_us") > 0)
    what = ("op", "size_bytes", "algorithm", "protocol")
    said = {"predicted_ns": pl.col("time_us") * 1000, "chosen": pl.lit(True), "source": pl.lit(CHOICE)}
    return timed.select("input_id", "line", "comm_id", "host", "pid", *what, **said)


def asked(chosen: pl.DataFrame) -> pl.DataFrame:
    """The first choice of each communicator for each operation and size, as many as the model is worked out for."""
    kind = ["comm_id", "op", "size_bytes"]
    return chosen.drop_nulls(kind).unique(kind, keep="first", maintain_order=True).head(_MOST)


def worked_out(chosen: pl.DataFrame, model: pl.DataFrame, comms: pl.DataFrame) -> pl.DataFrame:
    """Rows of ``predicted`` from the printed table, for each operation and size that a communicator chose for.

    Args:
        chosen: ``tuning_choice``.
        model: ``tuning_model``.
        comms: ``communicators``, for ranks, nodes and release.
    """
    tables = model.drop_nulls("comm_id").sort("input_id", "line").partition_by("comm_id", as_dict=True)
    cells = {str(c): printed(part.iter_rows(named=True)) for (c,), part in tables.items()}
    known = {row["comm_id"]: row for row in comms.iter_rows(named=True)}
    rows = [
        row
        for ask in asked(chosen).iter_rows(named=True)
        for row in _of_ask(ask, cells.get(ask["comm_id"], {}).get(str(ask["op"]), []), known.get(ask["comm_id"]))
    ]
    return pl.DataFrame(rows, schema_overrides={"size_bytes": pl.UInt64}, infer_schema_length=None)


def _of_ask(ask: dict[str, Any], costs: list[Cost], comm: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    if comm is None or not comm["nranks"]:
        return
    job = Job(comm["nranks"], comm["n_nodes"] or 1, _CAPABILITY, next(iter(comm["nccl_versions"] or ()), ""))
    taken = (str(ask["algorithm"] or "").upper(), str(ask["protocol"] or "").upper())
    channels = (ask["channels_hi"] - ask["channels_lo"] + 1) if ask["channels_hi"] is not None else 1
    same = ("input_id", "line", "comm_id", "host", "pid", "rank", "op")
    size = int(ask["size_bytes"]) * (comm["nranks"] if ask["op"] in _OF_ONE_RANK else 1)
    for cost in costs:
        name = (cost.algorithm.upper(), cost.protocol.upper())
        yield {
            **{key: ask[key] for key in same},
            "size_bytes": size,
            "algorithm": name[0],
            "protocol": name[1],
            "predicted_ns": time_us(cost, str(ask["op"]), size, job, max(1, channels)) * 1000,
            "chosen": name == taken,
            "source": TABLE,
        }
