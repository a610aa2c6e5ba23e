"""Ranks start their collectives far apart, without one guilty rank.

What it finds
-------------
Runs in which ranks wait long for each other in collectives while the last to arrive changes.

Why it matters
--------------
The waiting costs as much as a straggler does, but replacing one node will not help: the load is uneven or jittery.

How it decides
--------------
Where the traces can be replayed: work spread evenly over the ranks in every step would gain 1% or more, and no rank
does it alone. Elsewhere: collectives matched over ranks: the mean time that a rank waits for the last one, over the
recorded time, is 10% or more in at least 20 collectives (lateness that ranks inherit from other groups or a slow link
taken off), no rank passes the straggler test, and it is not one rank in one or two steps. Waiting that compute covers
is not counted. CPU collectives (Gloo), where scheduling noise is normal, are reported as information only, and so is
waiting that is mostly in groups of experts that get unequal numbers of tokens.

What to do
----------
Balance the work per rank (sequence lengths, experts, data loading), pin CPU threads, look for garbage collection and
for jobs that share the machine.

False positives
---------------
Pipelines, whose stages start apart by design; few collectives in the window.

References
----------
TraceLens implicit sync analysis.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nccl_insight.facts.straggler import arrivals, late_hosts
from nccl_insight.facts.thresholds import threshold
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._gains import LATE, mended, replayed, uneven, uneven_hit
from nccl_insight.rules._traces import input_of_rank, trace_refs
from nccl_insight.tables.run import Run
from nccl_insight.units import format_ns

CLASS = "P"
SEVERITY = Severity.WARNING
ACTION = Action.TRIAGE
CONFIDENCE = Confidence.MEDIUM
NEEDS = ("collectives",)
CAUSED_BY = ("alltoall-imbalanced", "busbw-outlier")
THRESHOLDS = {"wait_share": 0.10, "least_collectives": 20.0}
SOURCES = ("TraceLens implicit sync analysis",)
_ROUTED = 0.5
_WITHOUT_TIMES = 0.3
"""Records without times (NCCL Inspector) tell time in collectives only, of which waiting is a larger share."""


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """At most one finding; a straggler explains the skew and silences it."""
    late = mended(run, LATE) if replayed(run) else []
    if any(not uneven(one) for one in late):
        return
    found = arrivals(run)
    if found is None or found.stragglers or found.once or late_hosts(run):
        return
    limit = threshold(run, "collective-skew", "wait_share", THRESHOLDS["wait_share"])
    least = threshold(run, "collective-skew", "least_collectives", THRESHOLDS["least_collectives"])
    times = run.table("collectives")["start_ns"]
    timed = times.null_count() < times.len()
    if found.collectives < least or found.wait_share < (limit if timed else max(limit, _WITHOUT_TIMES)):
        return
    routed = found.routed >= _ROUTED
    if late:
        hit = uneven_hit(run, late[0])
        more = _by_tokens(found.routed) if routed else ""
        severity = Severity.INFO if routed else None
        yield replace(hit, severity=severity, explanation=hit.explanation + more)
        return
    inputs = input_of_rank(run)
    rows = found.ranks.select("rank", "times_last", "collectives", "mean_wait_ns").sort("rank")
    yield Hit(
        title=f"Ranks wait {found.wait_share:.0%} of the {'recorded time' if timed else 'time in collectives'} for "
        "each other in collectives, and the last one changes",
        explanation="No rank is last significantly more often than chance: uneven work or jitter rather than one slow "
        "rank."
        + (" These are CPU collectives, where scheduling noise is normal." if found.cpu_only else "")
        + (_by_tokens(found.routed) if found.routed >= _ROUTED else ""),
        observed=f"{found.wait_share:.1%} waiting in {found.collectives} matched collectives",
        expected=f"below {limit:.0%}",
        severity=Severity.INFO if found.cpu_only or found.routed >= _ROUTED else None,
        next_step="compare the work per rank (batch shapes, experts, data loading) and the CPU load of the hosts",
        ranks=tuple(rows["rank"].to_list()),
        evidence=trace_refs(
            (inputs.get(r), f"rank {r}: last in {n} of {c}, waits {format_ns(w or 0)} a collective")
            for r, n, c, w in rows.iter_rows()
        ),
    )


def _by_tokens(share: float) -> str:
    return (
        f" {share:.0%} of it is in groups that exchange tokens of unequal number: the work of the experts follows what "
        "the router sends them."
    )
