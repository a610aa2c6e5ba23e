"""GPUDirect RDMA is off because GPU and NIC are too far apart."""

from nccl_insight.facts.setup.settings import hosts_of, refs
from nccl_insight.rules._gdr import paths_blocked
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all GPUs without a near NIC."""
    far = paths_blocked(ctx.run)
    if far.is_empty():
        return
    distance, limit = far.item(0, "distance"), far.item(0, "limit")
    gpus = far.select("host", "gpu").n_unique()
    hosts = hosts_of(far)
    yield ctx.says("found", refs(far, 3), whom=hosts, distance=distance, limit=limit, gpus=gpus)
