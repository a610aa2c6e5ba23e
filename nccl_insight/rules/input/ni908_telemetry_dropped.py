"""A recorder dropped events."""

from nccl_insight.rules._notes import noted
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all inputs."""
    texts, refs = noted(ctx.run, ctx.name)
    if not texts:
        return
    yield ctx.says("found", refs[:5], absence=None if refs else texts[0], texts=texts, more=len(texts) - 1)
