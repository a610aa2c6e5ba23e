"""A port of a NIC went down and came back."""

from nccl_insight.base.model import Ref
from nccl_insight.facts.fabric.links import failed_after, flaps
from nccl_insight.rules.context import Context, Hits

_MANY = 3


def check(ctx: Context) -> Hits:
    """One finding for each device that came back."""
    for flap in flaps(ctx.run)[:5]:
        if not flap.back:
            continue
        hurt = failed_after(ctx.run, flap)
        span = f" for {flap.down_s:,.0f} s" if flap.down_s is not None else ""
        yield ctx.says(
            "found",
            tuple(Ref(i, n) for i, n in flap.lines[:4]),
            whom=(*flap.ranks, flap.host),
            first_s=flap.first_s,
            last_s=flap.last_s,
            devices=(flap.key,) if flap.device else (),
            span=span,
            flap=flap,
            hurt=hurt,
            sure=hurt or flap.count >= _MANY,
        )
