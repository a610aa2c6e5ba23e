"""The log holds only some ranks of a communicator."""

from collections.abc import Iterator

from nccl_insight.base.model import Hit, Ref
from nccl_insight.base.units import format_ranks, plural
from nccl_insight.facts.members import comms
from nccl_insight.facts.wire import missing_members
from nccl_insight.rules.context import Context, Hits, hit
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """One finding for all communicators of logs, told by the largest gap, and one for the groups of traces."""
    run = ctx.run
    yield from _traces(run)
    partial = [c for c in comms(run) if 0 < c.ranks_seen < c.nranks]
    if not partial:
        return
    worst = max(partial, key=lambda c: (c.nranks - c.ranks_seen, c.nranks, c.missing))
    others = len(partial) - 1
    missing = format_ranks(worst.missing) if worst.missing else plural(worst.nranks - worst.ranks_seen, "rank")
    yield ctx.hit(
        (Ref(worst.input_id, worst.line),) if worst.line else (),
        whom=worst.missing,
        title=f"The log holds {worst.ranks_seen} of {worst.nranks} ranks of a communicator"
        + (f" and parts of {plural(others, 'other')}" if others else ""),
        explanation="Conclusions from what is absent are lowered or left out for these communicators.",
        observed=plural(worst.ranks_seen, "rank"),
        expected=plural(worst.nranks, "rank"),
        unit="ranks",
        next_step="add the logs of the missing ranks (NCCL_DEBUG_FILE=nccl.%h.%p.log writes one file per process)",
        comm_id=worst.comm_id,
        absence=f"no init line of ranks {missing} in the inputs",
    )


def _traces(run: Run) -> Iterator[Hit]:
    """Members of traced process groups that gave no trace."""
    groups = missing_members(run)
    if not groups:
        return
    missing = tuple(sorted({r for absent in groups.values() for r in absent}))
    members = max(groups, key=lambda m: (len(groups[m]), len(m)))
    others = f" and of {plural(len(groups) - 1, 'other group')}" if len(groups) > 1 else ""
    seen = len(members) - len(groups[members])
    yield hit(
        (),
        whom=missing,
        title=f"No trace of rank{'s' if len(missing) > 1 else ''} {format_ranks(missing)}: only {seen} of "
        f"{plural(len(members), 'rank')} of a process group{others} were recorded",
        explanation="Where all recorded ranks wait, waiting for a rank that was not recorded cannot be told from a "
        "slow transfer: neither is judged for these groups.",
        observed=plural(seen, "rank"),
        expected=plural(len(members), "rank"),
        unit="ranks",
        next_step="add the traces of the missing ranks, of the same steps",
        absence=f"no trace of ranks {format_ranks(missing)} in the inputs",
    )
