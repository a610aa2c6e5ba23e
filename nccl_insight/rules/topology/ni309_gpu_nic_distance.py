"""A GPU reaches its NIC through the CPU."""

import polars as pl

from nccl_insight.facts.fabric.networks import networks_in_use
from nccl_insight.facts.fabric.paths import ring_graphs
from nccl_insight.facts.fabric.reach import spans_hosts
from nccl_insight.facts.setup.outliers import outliers
from nccl_insight.facts.setup.settings import hosts_of, ranks_of, refs
from nccl_insight.facts.who.transports import is_rdma
from nccl_insight.rules.context import Context, Hits

_FAR = ("PHB", "NODE", "SYS")


def check(ctx: Context) -> Hits:
    """One finding for hosts that differ, else one for the whole job."""
    run = ctx.run
    networks = networks_in_use(run)
    if spans_hosts(run) is not True or (networks and not any(is_rdma(n) for n in networks)):
        return
    graphs = ring_graphs(run, "type_inter")
    far = graphs.filter(pl.col("type_inter").is_in(_FAR))
    if far.is_empty():
        return
    odd = [o for o in outliers(graphs, "type_inter") if o.value in _FAR and o.majority not in _FAR]
    kind = far.item(0, "type_inter")
    if odd:
        first = odd[0]
        ranks, hosts, kind = first.ranks, first.hosts, first.value
        usual = first.majority
    else:
        ranks, hosts, usual = ranks_of(far), hosts_of(far), "PIX or PXB (one or several PCIe switches)"
    loud = bool(odd) or kind in ("SYS", "NODE")
    yield ctx.says(
        "found",
        refs(far.filter(pl.col("type_inter") == kind), 3),
        whom=(*ranks, *hosts),
        kind=kind,
        loud=loud,
        odd=odd,
        usual=usual,
    )
