"""Communicators are created again and again and never destroyed."""

import polars as pl

from nccl_insight.facts.setup.memory import device_memory
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all processes."""
    run = ctx.run
    limit = ctx["communicators"]
    known = run.table("communicators").filter(~pl.col("comm_id_made").fill_null(True))
    # A number for each set of hosts: grouping by their names would copy all names for every rank.
    members = known.select("comm_id", pl.col("hosts").list.sort().list.join(",").rank("dense").alias("where"))
    ranks = run.table("ranks").filter(pl.col("nranks") > 1).join(members, on="comm_id", how="inner")
    if (ranks["destroyed"].cast(pl.String) == "destroyed").any():
        ranks = ranks.filter(
            (pl.col("destroyed").cast(pl.String).fill_null("no") == "no").all().over("host", "pid", "nranks", "rank")
        )
    many = (
        ranks.group_by("host", "pid", "rank", "nranks", "where", maintain_order=True)
        .agg(pl.col("comm_id").n_unique().alias("made"), pl.col("input_id", "line").last())
        .filter(pl.col("made") >= limit)
    )
    if many.is_empty():
        return
    most = int(many["made"].max())  # type: ignore[arg-type]
    memory = next((m for m in device_memory(run) if m.communicators > 1), None)
    yield ctx.says(
        "found",
        many,
        absence="no destroyed communicator of these processes",
        many=many,
        most=most,
        memory=memory,
        each=memory and memory.bytes / memory.communicators,
    )
