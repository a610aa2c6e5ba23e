"""The traffic between nodes is spread unevenly over the NICs of a host."""

import polars as pl

from nccl_insight.facts.networks import nics
from nccl_insight.facts.reach import connections_judgeable
from nccl_insight.facts.settings import hosts_of, refs
from nccl_insight.facts.traffic import nic_load
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for the hosts with the largest difference."""
    run = ctx.run
    uneven_speeds = (
        nics(run)
        .group_by("host", "network")
        .agg(pl.col("speed_gbit").drop_nulls().n_unique().alias("speeds"))
        .filter(pl.col("speeds") > 1)
    )
    load = nic_load(run).join(uneven_speeds, on=["host", "network"], how="anti", nulls_equal=True)
    per_host = (
        load.group_by("host", "network", maintain_order=True)
        .agg(
            pl.len().alias("nics"),
            pl.col("channels").max().alias("most"),
            pl.col("channels").min().alias("least"),
            pl.col("net_dev").sort_by("channels", descending=True).first().alias("busiest"),
        )
        .filter(
            (pl.col("nics") > 1) & (pl.col("most") >= 2 * pl.col("least")) & (pl.col("most") - pl.col("least") >= 2)
        )
    )
    if per_host.is_empty():
        return
    judgeable = connections_judgeable(run)
    worst = per_host.sort("most", descending=True, maintain_order=True).row(0, named=True)
    rows = load.join(per_host.select("host", "network"), on=["host", "network"], how="semi", nulls_equal=True)
    hosts = hosts_of(per_host)
    yield ctx.says(
        "found",
        refs(rows.sort("channels", descending=True, maintain_order=True), 3),
        whom=hosts,
        worst=worst,
        hosts=hosts,
        judgeable=judgeable,
    )
