"""Several writers tore each other's lines."""

from nccl_insight.rules._notes import log_notes
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all inputs."""
    found = log_notes(ctx.run, ctx.name)
    if found is not None:
        yield ctx.says("log-notes", found.evidence, absence=found.absence, found=found)
