"""The hosts may be on InfiniBand fabrics that are not connected."""

from nccl_insight.facts.errors import present
from nccl_insight.rules._hints import hint
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """A candidate beside unacknowledged packets that no event explains."""
    run = ctx.run
    if present(run) & {"ib-port-error", "ib-device-fatal"}:
        return
    yield from hint(
        ctx,
        ("ib-completion-retry-exceeded",),
        "one-fabric",
        "Possible cause: the two hosts are not on one InfiniBand fabric",
        "ibstat <device> | grep -E 'Port GUID|SM lid|Base lid'   # on both hosts: one fabric has one SM lid; then "
        "ib_write_bw between the two",
        "If the very first transfer between two hosts fails like this, they may never have been connected: another "
        "subnet, partition key or (in clouds) placement.",
        "ib_write_bw between the two hosts works",
    )
