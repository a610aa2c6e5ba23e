"""Ranks, a host or a stage for which the others wait."""

from nccl_insight.base.model import CannotJudge
from nccl_insight.facts.lateness.replay import LATE, what_if
from nccl_insight.rules._gains import late_hit, mended
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding per rank, host or stage that is late by itself in more than one step."""
    refused = what_if(ctx.run).refused
    if refused:
        yield CannotJudge(refused, "give the traces of all ranks of the same steps")
    for one in mended(ctx.run, LATE):
        if not one.scenario.uneven and len(one.scenario.steps) != 1:
            yield late_hit(ctx.run, one)
