"""A port of a NIC went down and came back."""

from nccl_insight.base.model import Confidence, Ref, Severity
from nccl_insight.base.units import plural
from nccl_insight.facts.links import failed_after, flaps
from nccl_insight.rules.context import Context, Hits

_MANY = 3


def check(ctx: Context) -> Hits:
    """One finding for each device that came back."""
    run = ctx.run
    for flap in flaps(run)[:5]:
        if not flap.back:
            continue
        hurt = failed_after(run, flap)
        span = f" for {flap.down_s:,.0f} s" if flap.down_s is not None else ""
        where = f" on {flap.host}" if flap.host else ""
        yield ctx.hit(
            tuple(Ref(i, n) for i, n in flap.lines[:4]),
            whom=(*flap.ranks, flap.host),
            title=f"{flap.device or 'A port'}{where} went down{span} and came back ({plural(flap.count, 'time')})"
            + ("; errors on it followed" if hurt else ", and the job went on" if flap.went_on else ""),
            next_step=f"mlxlink -d {flap.device or '<device>'} -m -c   # link errors and transceiver; the switch "
            "port's log",
            observed=f"{plural(flap.count, 'flap')}{span}",
            severity=Severity.WARNING if hurt or flap.count >= _MANY else Severity.INFO,
            confidence=Confidence.HIGH if flap.host else Confidence.MEDIUM,
            first_s=flap.first_s,
            last_s=flap.last_s,
            devices=(flap.key,) if flap.device else (),
        )
