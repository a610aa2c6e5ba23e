"""One rank, late in one or two steps, causes most of the waiting.

What it finds
-------------
A single long delay of one rank that outweighs all others in its process group, and the step in which it happened.

Why it matters
--------------
It spoils averages and looks like a slow rank or like jitter, but it is neither: the question is what happened then.

How it decides
--------------
Where the traces can be replayed: a rank whose work or pauses as those of its peers would gain 1% or more, all of it
in one step. Elsewhere delays as in the straggler test: own arrival minus the second-last one, by step. One rank's
delay in one or two steps is at least half of all delay of the group, ten times the median step, and 1% of the
recorded time.

What to do
----------
Look at that step of the named rank in its trace: data loading, a checkpoint, garbage collection, a recompilation,
a profiler that starts late.

False positives
---------------
The first recorded step, in which profilers start at different times.

References
----------
TraceLens implicit sync analysis (arrival definitions).
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.facts.late import Once
from nccl_insight.facts.straggler import arrivals
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._gains import LATE, late_hit, mended, replayed
from nccl_insight.rules._late_reason import why_late
from nccl_insight.rules._traces import hosts_of, input_of_rank, trace_refs
from nccl_insight.tables.run import Run
from nccl_insight.units import format_ns, format_ranks

CLASS = "P"
SEVERITY = Severity.WARNING
ACTION = Action.TRIAGE
CONFIDENCE = Confidence.MEDIUM
NEEDS = ("collectives",)
CAUSED_BY = ("straggler-rank", "alltoall-imbalanced")
SOURCES = ("TraceLens implicit sync analysis",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding per rank."""
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
    group = (
        f" of group {once.group} (ranks {format_ranks(once.group_ranks)})" if once.group is not None else ""
    )
    first = (
        " It is the first one recorded: a profiler that starts late on this rank looks the same."
        if once.first
        else ""
    )
    why = why_late(run, (once.rank,), once.group_ranks, once.steps).text if once.steps else ""
    return Hit(
        title=f"Rank {once.rank} was late once, in {when}, and delayed the others by {format_ns(once.delay_ns)}",
        explanation=f"This is {once.delay_share:.0%} of all delay in the collectives{group} and "
        f"{once.window_share:.0%} of the recorded time; the median {'step' if once.steps else 'collective'} has "
        f"{format_ns(once.usual_ns)}. The rank is not slow otherwise.{why}{first}",
        observed=f"{format_ns(once.delay_ns)} in {when}",
        expected=f"about {format_ns(once.usual_ns)}",
        next_step=f"look at {when} in the trace of rank {once.rank}: data loading, checkpoint, garbage collection, "
        "recompilation",
        severity=Severity.INFO if once.first else None,
        ranks=(once.rank,),
        hosts=hosts_of(run, (once.rank,)),
        evidence=trace_refs([(input_id, f"rank {once.rank}: {format_ns(once.delay_ns)} late in {when}")]),
    )
