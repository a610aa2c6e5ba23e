"""The CUDA libraries of the process do not fit the kernel driver."""

from nccl_insight.base.model import Severity
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all lines."""
    yield from ctx.report(
        "The CUDA libraries do not fit the kernel driver",
        explanation="User-mode and kernel driver are of different versions (803), or a cuda-compat package is "
        "used on a GPU without forward compatibility (804). A configuration fault: nothing is broken.",
        quiet=Severity.WARNING,
    )
