"""The log holds only some ranks of a communicator."""

from nccl_insight.base.model import Ref
from nccl_insight.base.units import format_ranks, plural
from nccl_insight.facts.lateness.wire import missing_members
from nccl_insight.facts.who.members import comms
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all communicators of logs, told by the largest gap, and one for the groups of traces."""
    yield from _traces(ctx)
    partial = [c for c in comms(ctx.run) if 0 < c.ranks_seen < c.nranks]
    if not partial:
        return
    worst = max(partial, key=lambda c: (c.nranks - c.ranks_seen, c.nranks, c.missing))
    missing = format_ranks(worst.missing) if worst.missing else plural(worst.nranks - worst.ranks_seen, "rank")
    yield ctx.says(
        "found",
        (Ref(worst.input_id, worst.line),) if worst.line else (),
        whom=worst.missing,
        worst=worst,
        missing=missing,
        partial=partial,
    )


def _traces(ctx: Context) -> Hits:
    """Members of traced process groups that gave no trace."""
    groups = missing_members(ctx.run)
    if not groups:
        return
    missing = tuple(sorted({r for absent in groups.values() for r in absent}))
    members = max(groups, key=lambda m: (len(groups[m]), len(m)))
    yield ctx.says(
        "traces",
        (),
        whom=missing,
        missing=missing,
        seen=len(members) - len(groups[members]),
        members=members,
        others=len(groups) - 1,
    )
