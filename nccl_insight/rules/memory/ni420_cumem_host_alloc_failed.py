"""NCCL cannot allocate host memory through cuMem."""

from nccl_insight.base.model import Severity
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all lines."""
    yield from ctx.report(
        "NCCL cannot allocate shared host memory through cuMem",
        explanation="The allocation asks for memory of a NUMA node, which a container may refuse. NCCL 2.24 to 2.26.2 "
        "fail on it; later versions fall back.",
        quiet=Severity.WARNING,
    )
