"""A NIC runs at a lower speed than its peers."""

import polars as pl

from nccl_insight.facts.fabric.networks import nics
from nccl_insight.facts.said.diagnostics import findings
from nccl_insight.facts.setup.settings import hosts_of, refs
from nccl_insight.facts.who.transports import rdma_expr
from nccl_insight.language.load import playing
from nccl_insight.rules._diag import MOST, diagnosed
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for each network with slow devices."""
    known = nics(ctx.run).filter(
        rdma_expr("network") & (pl.col("speed_gbit") > 0) & pl.col("link_layer").is_in(["IB", "RoCE"])
    )
    for (network, layer), rows in known.group_by("network", "link_layer", maintain_order=True):
        votes = rows.group_by("speed_gbit").len().sort("len", "speed_gbit", descending=True)
        usual, count = int(votes.item(0, "speed_gbit")), int(votes.item(0, "len"))
        slow = rows.filter(pl.col("speed_gbit") < usual)
        # Two speeds on many devices are how the machines are built.
        if slow.is_empty() or 3 * slow.height > count:
            continue
        # A slower device of the same name on every host is a front-end NIC, not a fault.
        everywhere = rows["host"].drop_nulls().n_unique()
        if everywhere > 1 and slow["name"].n_unique() * everywhere == slow.unique(["host", "name"]).height:
            continue
        yield ctx.says(
            "found",
            (*refs(slow, 2), *refs(rows.filter(pl.col("speed_gbit") == usual), 1)),
            whom=hosts_of(slow),
            first=slow.row(0, named=True),
            count=count,
            usual=usual,
            layer=layer,
            network=network,
        )
    ports = findings(ctx.run, "Net device").filter(pl.col("message").is_in(playing("port-differs")))
    for _, part in list(ports.group_by("hca_name", maintain_order=True))[:MOST]:
        yield from diagnosed(ctx, "ports-differ", part)
