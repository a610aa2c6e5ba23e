"""A host lists fewer NICs than the other hosts of its communicator."""

import polars as pl

from nccl_insight.base.model import Confidence, Hit
from nccl_insight.facts.mentions import mentions
from nccl_insight.facts.networks import nics
from nccl_insight.facts.settings import hosts_of, named, refs
from nccl_insight.facts.transports import rdma_expr
from nccl_insight.rules._diag import ports_missing
from nccl_insight.rules.context import Context, Hits, hit


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
            yield _hit(short, of_network.filter(pl.col("count") == expected), expected, network)
    yield from ports_missing(run)
    if found:
        return
    rows = mentions(run, "net-counts-differ")
    if rows.height:
        yield ctx.hit(
            rows,
            title="NCCL reports different numbers of NICs across the ranks of a communicator",
            explanation="A host has lost a NIC, or its devices are filtered differently.",
            observed="mixed counts",
            expected="the same number of NICs on every host",
            next_step="ibv_devinfo -l on every host; compare NCCL_IB_HCA",
        )


def _hit(short: pl.DataFrame, good: pl.DataFrame, expected: int, network: str) -> Hit:
    hosts = hosts_of(short)
    missing = sorted(set(good.item(0, "name").to_list()) - set(short.item(0, "name").to_list()))
    lacking = f" ({', '.join(missing[:4])} missing)" if missing else ""
    return hit(
        (*refs(short, 2), *refs(good, 1)),
        whom=hosts,
        title=f"{named(hosts)}: {short.item(0, 'count')} {network} NICs{lacking}, other hosts: {expected}",
        explanation="All ranks wait for the node with the fewest NICs.",
        observed=f"{short.item(0, 'count')} NICs",
        expected=f"{expected} NICs",
        unit="NICs",
        next_step=f"on {hosts[0]}: ibv_devinfo -l; ibstat   # and compare NCCL_IB_HCA with a good host",
        confidence=Confidence.HIGH if good.height > short.height else Confidence.MEDIUM,
    )
