"""NICs of different rails may not reach each other."""

from nccl_insight.rules._hints import hint
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """A candidate beside unanswered connections."""
    yield from hint(
        ctx,
        ("ib-qp-timeout", "ib-qp-unreachable"),
        "cross-rail",
        "Possible cause: the NICs are on different rails that are not connected",
        "NCCL_CROSS_NIC=0 <the same job>   # if that works, the fabric is rail-only; else ping -I <interface> "
        "<address>",
        "If the two devices of the message have different indices (mlx5_1 and mlx5_4), they are on different rails. "
        "Rail-only fabrics do not connect those.",
        "connections only within a rail, or a fabric that joins the rails",
    )
