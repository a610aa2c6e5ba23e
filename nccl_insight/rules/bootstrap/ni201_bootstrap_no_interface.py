"""NCCL finds no usable network interface for its bootstrap."""

from nccl_insight.facts.settings import value_of
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding, unless a set NCCL_SOCKET_IFNAME explains it."""
    run = ctx.run
    if value_of(run, "NCCL_SOCKET_IFNAME"):
        return
    yield from ctx.report("NCCL finds no usable network interface", quiet=None)
