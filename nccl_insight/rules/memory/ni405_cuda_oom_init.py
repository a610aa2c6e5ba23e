"""A GPU ran out of memory while NCCL allocated its buffers."""

from nccl_insight.base.model import Confidence
from nccl_insight.facts.said.errors import ALLOC_FAILED, present
from nccl_insight.rules._errors import trouble
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """CUDA's message, else an allocation of NCCL that failed without a stated reason."""
    found = ctx.lines()
    confidence = None
    if found is None:
        if present(ctx.run) & {*ctx.names("unless")}:
            return
        found = trouble(ctx.run, ALLOC_FAILED)
        confidence = Confidence.MEDIUM
    if found is None:
        return
    yield from ctx.tells("found", confidence=confidence, rows=found, quiet=None)
