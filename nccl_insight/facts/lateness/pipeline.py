"""Waiting that the schedule of a pipeline makes: stages wait for each other's micro-batches, whoever is fast.

A pipeline of p equal stages and m micro-batches idles (p - 1) / (m + p - 1) of a step (Narayanan et al., "Efficient
Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", 2021). The GPU stands in a receive meanwhile,
or in the collective that ends the step, which looks like communication and is none.
"""

from typing import Final

import polars as pl

from nccl_insight.base.bandwidth import SYNCHRONISING
from nccl_insight.facts.lateness.replay import what_if
from nccl_insight.facts.lateness.waiting import is_engine_copy
from nccl_insight.readers import intervals
from nccl_insight.tables.run import Run, fact

_POINT_TO_POINT: Final = ("Send", "Recv", "SendRecv")
_LIKE: Final = 4
"""So many transfers of one kind tell how long it takes without waiting."""
_WHERE: Final = ("input_id", "rank", "device")


@fact
def schedule_waits(run: Run) -> pl.DataFrame:
    """Waiting of each GPU for other stages: ``input_id, rank, device, stage_wait_ns, stage_exposed_ns``.

    ``stage_exposed_ns`` is the part that no compute covers.
    Empty where no rank sends to another, and where ranks are late: then it is what the others wait for. Stages with
    more to do than others belong to the schedule.
    """
    none = pl.DataFrame(
        schema={
            "input_id": pl.UInt16,
            "rank": pl.Int32,
            "device": pl.Int32,
            "stage_wait_ns": pl.Int64,
            "stage_exposed_ns": pl.Int64,
        }
    )
    table = run.table("collectives")
    if any(table[name].null_count() == table.height for name in ("exposed_ns", "match_id", "peer")):
        return none
    table = table.filter(pl.col("source").cast(pl.String) == "kernel").with_columns(pl.col("op").cast(pl.String))
    transfers = table.filter(pl.col("op").is_in(_POINT_TO_POINT) & pl.col("rank").is_not_null())
    if transfers.is_empty():
        return none
    if any(gain.scenario.kind != "compute" for gain in what_if(run).late):
        return none
    kind = ["rank", "op", "peer", "size_bytes"]
    quickest = (
        pl.when(pl.len().over(kind) >= _LIKE).then(pl.col("duration_ns").min().over(kind)).otherwise("duration_ns")
    )
    ends = table.filter(pl.col("op").is_in(SYNCHRONISING) & ~is_engine_copy()).with_columns(wait="wait_ns")
    waits = transfers.with_columns(wait=pl.coalesce("wait_ns", pl.col("duration_ns") - quickest))
    rows = pl.concat([waits, ends], how="diagonal_relaxed")
    rows = rows.filter(pl.col("wait") > 0)
    lanes = rows.select(_WHERE).unique().with_row_index("lane")
    rows = rows.join(lanes, on=_WHERE, nulls_equal=True)
    return (
        lanes.join(_union(rows, pl.col("wait"), "stage_wait_ns"), on="lane")
        .join(_union(rows, pl.min_horizontal("wait", "exposed_ns"), "stage_exposed_ns"), on="lane", how="left")
        .select(*_WHERE, "stage_wait_ns", pl.col("stage_exposed_ns").fill_null(0))
    )


def _union(rows: pl.DataFrame, waiting: pl.Expr, name: str) -> pl.DataFrame:
    """``lane`` and the time in which at least one operation of it waits; an operation begins with its waiting."""
    parts = intervals.union(rows.select("lane", "start_ns", end_ns=pl.col("start_ns") + waiting), by="lane")
    return parts.group_by("lane").agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias(name))
