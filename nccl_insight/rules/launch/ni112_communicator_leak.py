"""Communicators are created again and again and never destroyed."""

import polars as pl

from nccl_insight.base.units import format_bytes
from nccl_insight.facts.setup.memory import device_memory
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run


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
    yield ctx.says(
        "found", many, absence="no destroyed communicator of these processes", many=many, most=most, memory=_bytes(run)
    )


def _bytes(run: Run) -> str:
    """What the log says about their memory; empty without ALLOC lines."""
    most = next((m for m in device_memory(run) if m.communicators > 1), None)
    if most is None:
        return ""
    each = format_bytes(most.bytes / most.communicators)
    return (
        f" One process allocated {format_bytes(most.bytes)} of GPU memory for {most.communicators} communicators, "
        f"{each} each."
    )
