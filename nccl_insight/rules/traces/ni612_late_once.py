"""Ranks that were late in a single step."""

from nccl_insight.facts.lateness.replay import LATE
from nccl_insight.rules._gains import late_hit, mended
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding per rank, or ranks together."""
    for one in mended(ctx.run, LATE):
        if len(one.scenario.steps) == 1:
            yield late_hit(ctx.run, one)
