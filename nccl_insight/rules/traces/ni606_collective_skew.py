"""The work of ranks is uneven, without one guilty rank."""

from nccl_insight.facts.lateness.replay import LATE
from nccl_insight.rules._gains import mended, uneven_hit
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """At most one finding; a rank, host or stage that is late explains the skew and silences it."""
    late = mended(ctx.run, LATE)
    if late and all(one.scenario.uneven for one in late) and late[0].share >= ctx["gain_share"]:
        yield uneven_hit(ctx.run, late[0])
