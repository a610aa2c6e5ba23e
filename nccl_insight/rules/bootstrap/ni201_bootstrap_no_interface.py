"""NCCL finds no usable network interface for its bootstrap."""

from nccl_insight.facts.setup.settings import value_of
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding, unless a set NCCL_SOCKET_IFNAME explains it."""
    if not value_of(ctx.run, "NCCL_SOCKET_IFNAME"):
        yield from ctx.tells("found", quiet=None)
