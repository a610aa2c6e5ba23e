"""One rank, late in one or two steps, causes most of the waiting."""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.base.model import CannotJudge, Hit, Severity
from nccl_insight.base.units import format_ns, format_ranks
from nccl_insight.facts.late import Once
from nccl_insight.facts.straggler import arrivals
from nccl_insight.rules._gains import LATE, late_hit, mended, replayed
from nccl_insight.rules._late_reason import why_late
from nccl_insight.rules._traces import input_of_rank, trace_refs, with_hosts
from nccl_insight.rules.context import Context, hit
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Iterator[Hit | CannotJudge]:
    """One finding per rank."""
    run = ctx.run
    gains = mended(run, LATE) if replayed(run) else []
    if gains:
        yield from (late_hit(run, one) for one in gains if len(one.gain.scenario.steps) == 1)
        return
    found = arrivals(run)
    inputs = input_of_rank(run) if found and found.once else {}
    for once in found.once if found else ():
        yield _hit(run, once, inputs.get(once.rank))


def _hit(run: Run, once: Once, input_id: int | None) -> Hit:
    steps = ", ".join(str(s) for s in once.steps)
    when = f"step{'s' if len(once.steps) > 1 else ''} {steps}" if once.steps else "one collective"
    group = f" of group {once.group} (ranks {format_ranks(once.group_ranks)})" if once.group is not None else ""
    first = (
        " It is the first one recorded: a profiler that starts late on this rank looks the same." if once.first else ""
    )
    why = why_late(run, (once.rank,), once.group_ranks, once.steps).text if once.steps else ""
    return hit(
        trace_refs([(input_id, f"rank {once.rank}: {format_ns(once.delay_ns)} late in {when}")]),
        whom=with_hosts(run, (once.rank,)),
        title=f"Rank {once.rank} was late once, in {when}, and delayed the others by {format_ns(once.delay_ns)} "
        f"({once.window_share:.0%} of the time)",
        explanation=f"This is {once.delay_share:.0%} of all delay in the collectives{group} and "
        f"{once.window_share:.0%} of the recorded time; the median {'step' if once.steps else 'collective'} has "
        f"{format_ns(once.usual_ns)}. The rank is not slow otherwise.{why}{first}",
        observed=f"{format_ns(once.delay_ns)} in {when}",
        expected=f"about {format_ns(once.usual_ns)}",
        next_step=f"look at {when} in the trace of rank {once.rank}: data loading, checkpoint, garbage collection, "
        "recompilation",
        severity=Severity.INFO if once.first else None,
    )
