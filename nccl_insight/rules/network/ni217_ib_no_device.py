"""NCCL found no InfiniBand or RoCE device."""

from nccl_insight.facts.fabric.reach import spans_hosts
from nccl_insight.facts.said.mentions import no_device
from nccl_insight.facts.setup.settings import hosts_of, refs, setting
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for the run."""
    run = ctx.run
    rows = no_device(run)
    if rows.is_empty():
        return
    hosts = hosts_of(rows)
    wanted = setting(run, "NCCL_IB_HCA")
    filtered = f" NCCL_IB_HCA={wanted.item(0, 'value')} may exclude them all." if wanted.height else ""
    one_node = spans_hosts(run) is False
    yield ctx.says("found", (*refs(rows, 2), *refs(wanted, 1)), whom=hosts, one_node=one_node, filtered=filtered)
