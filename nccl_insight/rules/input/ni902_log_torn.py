"""Several writers tore each other's lines."""

from nccl_insight.rules._log_notes import log_notes
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all inputs."""
    run = ctx.run
    yield from log_notes(
        run,
        ctx.name,
        "Lines were torn by several writers",
        "NCCL_DEBUG_FILE=/tmp/nccl.%h.%p <the same job>   # one file per process",
        "Whole records found inside torn lines were used; fragments were left out and counted.",
        "one record per line",
    )
