"""The work of ranks is uneven, without one guilty rank."""

from dataclasses import replace

from nccl_insight.base.model import Severity
from nccl_insight.facts.lateness.replay import LATE
from nccl_insight.facts.lateness.routed import routed_ranks
from nccl_insight.rules._gains import mended, uneven_hit
from nccl_insight.rules.context import Context, Hits

_BY_TOKENS = " These ranks exchange tokens of unequal number: the work of experts follows what the router sends them."


def check(ctx: Context) -> Hits:
    """At most one finding; a rank, host or stage that is late explains the skew and silences it."""
    late = mended(ctx.run, LATE)
    if not late or not all(one.scenario.uneven for one in late) or late[0].share < ctx["gain_share"]:
        return
    hit = uneven_hit(ctx.run, late[0])
    if routed_ranks(ctx.run) & set(hit.ranks):
        hit = replace(hit, severity=Severity.INFO, explanation=hit.explanation + _BY_TOKENS)
    yield hit
