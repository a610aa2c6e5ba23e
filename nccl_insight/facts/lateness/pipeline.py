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
    table = run.table("collectives")
    none = table.head(0).select(*_WHERE, stage_wait_ns=pl.lit(0, pl.Int64), stage_exposed_ns=pl.lit(0, pl.Int64))
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
    exposed = pl.min_horizontal("wait", "exposed_ns")
    # An operation begins with its waiting.
    rows = rows.filter(pl.col("wait") > 0)
    return intervals.held(rows, _WHERE, stage_wait_ns=pl.col("wait"), stage_exposed_ns=exposed)
