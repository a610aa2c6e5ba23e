"""GPU memory of a peer process could not be mapped."""

from nccl_insight.facts.said.errors import ALLOC_FAILED, CONSEQUENCE, present
from nccl_insight.rules._errors import Trouble, trouble
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """Stated, else from the result traces of the P2P transport."""
    found = ctx.lines()
    traced = None if found is not None or present(ctx.run) & {ALLOC_FAILED, *ctx.names("unless")} else _traced(ctx.run)
    yield from ctx.tells("found", rows=found or traced, quiet=None, untraced=traced is None)


def _traced(run: Run) -> Trouble | None:
    traces = trouble(run, CONSEQUENCE)
    return traces.telling("trail", "p2p-cuda") if traces else None
