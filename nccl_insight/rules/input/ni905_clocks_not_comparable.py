"""The traces have no common clock, so start skew is not judged."""

from nccl_insight.rules._trace_notes import noted
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """At most one finding."""
    run = ctx.run
    texts, evidence = noted(run, ctx.name)
    if texts:
        yield ctx.hit(
            evidence,
            title="The traces have no common clock: start skew is not judged",
            explanation=texts[0],
            observed="no proof of a common clock",
            absence=None if evidence else texts[0],
        )
