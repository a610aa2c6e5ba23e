"""NCCL found no InfiniBand or RoCE device."""

from nccl_insight.facts.mentions import no_device
from nccl_insight.facts.reach import spans_hosts
from nccl_insight.facts.settings import hosts_of, named, refs, setting
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
    yield ctx.hit(
        (*refs(rows, 2), *refs(wanted, 1)),
        whom=hosts,
        title="NCCL found no InfiniBand or RoCE device" + (f" on {named(hosts)}" if hosts else ""),
        explanation=(
            "The job stays on one node, so that no network is needed."
            if one_node
            else f"Normal on hosts without RDMA hardware; else the devices are hidden from the job.{filtered}"
        ),
        observed="0 RDMA devices",
        next_step="nothing to do" if one_node else "ibv_devinfo   # inside the container: does it list a device?",
    )
