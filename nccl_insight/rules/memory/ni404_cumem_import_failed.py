"""GPU memory of a peer process could not be mapped."""

from nccl_insight.facts.said.errors import ALLOC_FAILED, CONSEQUENCE, present
from nccl_insight.rules._errors import trouble
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """Stated, else from the result traces of the P2P transport."""
    found, traced = ctx.lines(), None
    if found is None and present(ctx.run).isdisjoint({ALLOC_FAILED, *ctx.names("unless")}):
        traces = trouble(ctx.run, CONSEQUENCE)
        traced = traces.telling("trail", "p2p-cuda") if traces else None
    yield from ctx.tells("found", rows=found or traced, quiet=None, untraced=traced is None)
