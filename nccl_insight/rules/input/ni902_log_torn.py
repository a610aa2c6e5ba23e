"""Several writers tore each other's lines."""

from nccl_insight.rules._notes import log_notes
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all inputs."""
    yield from log_notes(ctx)
