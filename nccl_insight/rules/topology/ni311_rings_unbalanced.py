"""The traffic between nodes is spread unevenly over the NICs of a host."""

from typing import Final

import polars as pl

from nccl_insight.base.versions import at_least
from nccl_insight.facts.fabric.networks import nics
from nccl_insight.facts.fabric.traffic import nic_load
from nccl_insight.facts.setup.settings import hosts_of, refs
from nccl_insight.facts.who.members import comms
from nccl_insight.facts.who.transports import links
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run

#: init.cc: NCCL_PARAM(RuntimeConnect) defaults to 1 since this release
_LAZY_SINCE: Final = "2.22.3"


def check(ctx: Context) -> Hits:
    """One finding for the hosts with the largest difference."""
    run = ctx.run
    uneven_speeds = (
        nics(run)
        .group_by("host", "network")
        .agg(speeds=pl.col("speed_gbit").drop_nulls().n_unique())
        .filter(pl.col("speeds") > 1)
    )
    load = nic_load(run).join(uneven_speeds, on=["host", "network"], how="anti", nulls_equal=True)
    per_host = (
        load.group_by("host", "network", maintain_order=True)
        .agg(
            nics=pl.len(),
            most=pl.col("channels").max(),
            least=pl.col("channels").min(),
            busiest=pl.col("net_dev").sort_by("channels", descending=True).first(),
        )
        .filter(
            (pl.col("nics") > 1) & (pl.col("most") >= 2 * pl.col("least")) & (pl.col("most") - pl.col("least") >= 2)
        )
    )
    if per_host.is_empty():
        return
    rows = load.join(per_host.select("host", "network"), on=["host", "network"], how="semi", nulls_equal=True)
    yield ctx.says(
        "found",
        refs(rows.sort("channels", descending=True, maintain_order=True), 3),
        whom=hosts_of(per_host),
        worst=per_host.sort("most", descending=True, maintain_order=True).row(0, named=True),
        doubt=_doubt(run),
    )


def _doubt(run: Run) -> str:
    """Why missing connections do not mean missing traffic; empty where they do.

    Since 2.23 NCCL connects on first use and for the chosen algorithm only, and a log that lacks ranks or
    the INIT subsystem shows none at all.
    """
    if not run.has("connections"):
        return "the log has no connection lines (NCCL connects lazily, or INFO is off)"
    if any(c.ranks_seen < c.nranks for c in comms(run)):
        return "the log lacks some ranks of a communicator"
    # Whether a NET connection shows at one end only although both ranks write to this log.
    net = links(run).filter((pl.col("transport") == "NET") & pl.col("pxn_rank").is_null())
    both = net.filter(pl.col("src_host").is_not_null() & pl.col("dst_host").is_not_null())
    ends = both.group_by("comm_id", "channel", "conn_index", "src_rank", "dst_rank").agg(
        ends=pl.col("direction").n_unique()
    )
    if ends.filter(pl.col("ends") < 2).height > 0:
        return "the log lacks the other end of some connections: lines are missing"
    versions = run.table("processes").get_column("nccl_version").drop_nulls().unique().to_list()
    lazy = [v for v in versions if at_least(v, _LAZY_SINCE)]
    if lazy:
        return f"NCCL {lazy[0]} connects on first use only"
    return ""
