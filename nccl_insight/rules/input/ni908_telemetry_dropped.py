"""A recorder dropped events."""

from nccl_insight.base.units import plural
from nccl_insight.rules._notes import noted
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all inputs."""
    run = ctx.run
    texts, refs = noted(run, ctx.name)
    if not texts:
        return
    more = f" and {plural(len(texts) - 1, 'more recorder')}" if len(texts) > 1 else ""
    yield ctx.says("found", refs[:5], absence=None if refs else texts[0], texts=texts, more=more)
