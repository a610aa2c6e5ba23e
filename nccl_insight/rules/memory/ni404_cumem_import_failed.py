"""GPU memory of a peer process could not be mapped."""

from nccl_insight.facts.errors import CONSEQUENCE, present
from nccl_insight.rules._errors import Trouble, trouble
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run

_NAMED = {
    "cuda-oom-init", "cuda-unhandled", "cuda-init-error", "cuda-driver-shutdown", "cuda-driver-too-old",
    "fabric-manager-issue", "mnnvl-imex-missing", "nvls-multicast-failed", "alloc-failed",
}  # fmt: skip


def check(ctx: Context) -> Hits:
    """Stated, else from the result traces of the P2P transport."""
    run = ctx.run
    found = ctx.lines()
    traced = None if found is not None or present(run) & _NAMED else _traced(run)
    yield from ctx.tells("found", rows=found or traced, quiet=None, untraced=traced is None)


def _traced(run: Run) -> Trouble | None:
    traces = trouble(run, CONSEQUENCE)
    return traces.telling("trail", "p2p-cuda") if traces else None
