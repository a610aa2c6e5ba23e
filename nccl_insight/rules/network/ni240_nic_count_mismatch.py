"""A host lists fewer NICs than the other hosts of its communicator."""

import polars as pl

from nccl_insight.facts.fabric.networks import nics
from nccl_insight.facts.said.mentions import mentions
from nccl_insight.facts.setup.settings import hosts_of, refs
from nccl_insight.facts.who.transports import rdma_expr
from nccl_insight.rules._diag import ports_missing
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for the short hosts, else one for NCCL's message."""
    run = ctx.run
    counted = (
        nics(run)
        .filter(rdma_expr("network") & pl.col("host").is_not_null() & pl.col("listed"))
        .group_by("host", "network", maintain_order=True)
        .agg(pl.struct("name", "port").n_unique().alias("count"), pl.col("name"), pl.col("input_id", "line").first())
    )
    known = run.table("ranks").select("host").drop_nulls().unique()
    if known.height:
        counted = counted.join(known, on="host", how="semi", maintain_order="left")
    usual = counted.group_by("network", "count").len().sort("len", "count", descending=True)
    found = False
    for network in counted.get_column("network").unique(maintain_order=True):
        expected = usual.filter(pl.col("network") == network).item(0, "count")
        of_network = counted.filter(pl.col("network") == network)
        short = of_network.filter(pl.col("count") < expected)
        if short.height:
            found = True
            good = of_network.filter(pl.col("count") == expected)
            missing = sorted(set(good.item(0, "name").to_list()) - set(short.item(0, "name").to_list()))
            lacking = f" ({', '.join(missing[:4])} missing)" if missing else ""
            yield ctx.says(
                "found",
                (*refs(short, 2), *refs(good, 1)),
                whom=hosts_of(short),
                count=short.item(0, "count"),
                network=network,
                lacking=lacking,
                expected_said=expected,
                more=good.height > short.height,
            )
    yield from ports_missing(run)
    if found:
        return
    rows = mentions(run, "net-counts-differ")
    if rows.height:
        yield ctx.says("found-nccl-reports", rows)
