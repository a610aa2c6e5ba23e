"""Multi-node NVLink is there and its IMEX channel is not usable."""

from nccl_insight.base.model import Severity
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """NCCL's statement about the clique."""
    found = ctx.lines()
    size = found.value("clique_size") if found else None
    yield from ctx.report(
        f"MNNVL is available{f' (clique of {size})' if size else ''} but its IMEX channel does not work",
        explanation="Sharing memory over multi-node NVLink needs the IMEX daemon in state READY on all hosts and a "
        "channel device inside the container.",
        expected="IMEX domain UP and channel0 in the container",
        quiet=Severity.WARNING,
    )
