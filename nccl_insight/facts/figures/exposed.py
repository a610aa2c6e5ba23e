"""Whose communication is exposed: by process group and operation, and by the code that asked for it."""

import polars as pl

from nccl_insight.facts.lateness.idle import asked_from
from nccl_insight.tables.run import Run, fact


@fact
def exposed_by(run: Run) -> pl.DataFrame:
    """Exposed time of the collectives of each GPU, by process group and operation, the most first.

    Columns: ``input_id, rank, device, process_group`` (as the program called the group, else its name), ``op, count,
    exposed_ns, share`` (of the exposed time of all collectives on the GPU, 0..1; what runs side by side counts twice).
    """
    where = ["input_id", "rank", "device"]
    rows = run.table("collectives").filter(pl.col("exposed_ns") > 0)
    names = (
        run.table("process_groups")
        .select("input_id", "process_group", "description")
        .unique(["input_id", "process_group"], keep="first", maintain_order=True)
    )
    said = pl.when(pl.col("description") != "undefined").then("description")
    return (
        rows.join(names, on=["input_id", "process_group"], how="left")
        .group_by(*where, pl.coalesce(said, "process_group").alias("process_group"), pl.col("op").cast(pl.String))
        .agg(count=pl.len(), exposed_ns=pl.col("exposed_ns").sum())
        .with_columns(share=pl.col("exposed_ns") / pl.col("exposed_ns").sum().over(where))
        .sort(*where, "exposed_ns", descending=[False] * 3 + [True], nulls_last=True)
    )


@fact
def asked_by(run: Run, input_id: int) -> pl.DataFrame:
    """The code that asked for the exposed collectives of a Kineto trace, the most exposed time first.

    Columns: ``code`` (module, function or annotation around the launch), ``op, exposed_ns``. Without rows where the
    trace is not read again (:mod:`nccl_insight.facts.lateness.idle`) or says nothing of it.
    """
    rows = run.table("collectives").filter((pl.col("input_id") == input_id) & (pl.col("exposed_ns") > 0))
    launched = run.table("gpu_work").filter((pl.col("input_id") == input_id) & pl.col("launch_ns").is_not_null())
    rows = rows.join(launched.select("stream", "start_ns", "launch_ns"), on=["stream", "start_ns"])
    codes = pl.Series(asked_from(run, input_id, tuple(rows["launch_ns"])), dtype=pl.String)
    told = rows.select(code=codes, op=pl.col("op").cast(pl.String), exposed_ns="exposed_ns").drop_nulls()
    sums = told.filter(pl.col("code") != "").group_by("code", "op", maintain_order=True).agg(pl.col("exposed_ns").sum())
    return sums.sort("exposed_ns", descending=True, maintain_order=True)
