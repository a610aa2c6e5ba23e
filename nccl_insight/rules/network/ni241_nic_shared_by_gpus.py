"""Several GPUs send over one NIC while other NICs of the host are idle."""

import polars as pl

from nccl_insight.facts.fabric.networks import nics
from nccl_insight.facts.fabric.traffic import nic_load
from nccl_insight.facts.setup.settings import hosts_of, refs
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all hosts that share a NIC."""
    load = nic_load(ctx.run).filter(pl.col("host").is_not_null())
    if load.is_empty():
        return
    listed = (
        nics(ctx.run)
        .filter(pl.col("index").is_not_null())
        .group_by("host", "network", maintain_order=True)
        .agg(listed=pl.col("index").unique(), layers=pl.col("link_layer").n_unique())
        .filter(pl.col("layers") == 1)
    )
    used = load.group_by("host", "network", maintain_order=True).agg(
        pl.col("net_dev").unique().alias("used"), pl.col("sharers").max(), nics=pl.len()
    )
    judged = used.join(listed, on=["host", "network"], how="inner").with_columns(
        idle=pl.col("listed").list.set_difference("used").list.len()
    )
    bad = judged.filter((pl.col("sharers") > 1) & (pl.col("idle") >= pl.col("sharers") - 1))
    if bad.is_empty():
        return
    every = load.select("host").n_unique()
    crowded = bad.filter((pl.col("nics") == 1) & (pl.col("sharers") > 2))
    loud = crowded.height > 0 or bad.select("host").n_unique() * 2 < every
    rows = load.join(bad.select("host", "network"), on=["host", "network"], how="semi")
    shared = rows.filter(pl.col("sharers") > 1)
    hosts = hosts_of(bad)
    ranks = tuple(sorted({r for group in shared.get_column("ranks").to_list() for r in group}))
    idle = int(bad.item(0, "idle"))
    yield ctx.says(
        "found",
        refs(shared, 3),
        whom=(*ranks, *hosts),
        shared=shared,
        sharers=bad.item(0, "sharers"),
        idle=idle,
        single=idle == 1,
        loud=loud,
    )
