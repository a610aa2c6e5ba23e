"""Hosts of one NVLink domain do not use multi-node NVLink."""

import polars as pl

from nccl_insight.facts.setup.settings import hosts_of, refs, setting
from nccl_insight.facts.who.members import comms
from nccl_insight.rules.context import Context, Hits

_READY = 3


def check(ctx: Context) -> Hits:
    """One finding for the largest domain."""
    run = ctx.run
    table = run.table("mnnvl")
    fabric = table.filter(
        (pl.col("event") == "fabric")
        & (pl.col("fabric_state") == _READY)
        & ~(pl.col("fabric_uuid_high").str.contains("^0*$") & pl.col("fabric_uuid_low").str.contains("^0*$"))
    )
    domains = (
        fabric.group_by("fabric_uuid_high", "fabric_uuid_low", "clique_id", maintain_order=True)
        .agg(pl.col("host").drop_nulls().unique().sort().alias("hosts"), pl.col("input_id", "line").first())
        .filter(pl.col("hosts").list.len() > 1)
    )
    if domains.is_empty():
        return
    hosts = max(domains.get_column("hosts").to_list(), key=len)
    apart = [c for c in comms(run) if len(set(c.hosts) & set(hosts)) > 1 and c.nodes and c.nodes > 1]
    said = table.filter((pl.col("event") == "clique") & (pl.col("mnnvl_state").fill_null(0) == 0))
    # One node of the domain may hold several hosts of another rack: only hosts of this domain count.
    apart = [c for c in apart if c.nodes and c.nodes >= len(c.hosts)]
    if not apart:
        return
    off = setting(run, "NCCL_MNNVL_ENABLE").filter(pl.col("value") == "0")
    rows = fabric.filter(pl.col("host").is_in(hosts))
    yield ctx.says(
        "found",
        (*refs(rows, 2), *refs(said, 1), *refs(off, 1)),
        whom=hosts_of(rows),
        comm_id=apart[0].comm_id,
        hosts=hosts,
        off=off,
        apart=apart,
        unset=off.height or said.height,
    )
