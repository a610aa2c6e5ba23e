"""A trace lacks what some figures need: rank, message sizes, groups."""

from nccl_insight.base.units import plural
from nccl_insight.rules._errors import cut
from nccl_insight.rules._trace_notes import noted
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all inputs."""
    run = ctx.run
    texts, evidence = noted(run, ctx.name)
    if texts:
        yield ctx.hit(
            evidence,
            title=f"Metadata is missing in the traces: {cut(texts[0], 70)}",
            explanation="; ".join(texts[:6]),
            observed=plural(len(texts), "gap"),
            absence=None if evidence else texts[0],
        )
