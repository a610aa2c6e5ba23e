"""The traces have no common clock, so start skew is not judged."""

from nccl_insight.rules._notes import noted
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """At most one finding."""
    texts, evidence = noted(ctx.run, ctx.name)
    if texts:
        yield ctx.says("found", evidence, explanation=texts[0], absence=None if evidence else texts[0])
