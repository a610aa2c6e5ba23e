"""A queue of an InfiniBand device reported a fatal event."""

from nccl_insight.facts.fabric.links import devices_of
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all events."""
    found = ctx.lines()
    if found is None:
        return
    yield from ctx.tells("found", rows=found, devices=devices_of(ctx.run, found.rows))
