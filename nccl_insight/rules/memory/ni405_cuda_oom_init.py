"""A GPU ran out of memory while NCCL allocated its buffers."""

from nccl_insight.base.model import Confidence
from nccl_insight.facts.said.errors import ALLOC_FAILED, present
from nccl_insight.rules._errors import trouble
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """CUDA's message, else an allocation of NCCL that failed without a stated reason."""
    found = ctx.lines()
    guessed = found is None and present(ctx.run).isdisjoint(ctx.names("unless"))
    rows = trouble(ctx.run, ALLOC_FAILED) if guessed else found
    if rows is not None:
        yield from ctx.tells("found", confidence=Confidence.MEDIUM if guessed else None, rows=rows, quiet=None)
