"""A trace lacks what some figures need: rank, message sizes, groups."""

from nccl_insight.rules._notes import noted
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all inputs."""
    texts, evidence = noted(ctx.run, ctx.name)
    if texts:
        yield ctx.says(
            "found", evidence, explanation="; ".join(texts[:6]), absence=None if evidence else texts[0], texts=texts
        )
