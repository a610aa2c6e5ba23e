"""Ranks start their collectives far apart, without one guilty rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nccl_insight.base.model import CannotJudge, Hit, Severity
from nccl_insight.base.units import format_ns
from nccl_insight.facts.straggler import arrivals, late_hosts
from nccl_insight.rules._gains import LATE, mended, replayed, uneven, uneven_hit
from nccl_insight.rules._traces import input_of_rank, trace_refs
from nccl_insight.rules.context import Context

_ROUTED = 0.5
_WITHOUT_TIMES = 0.3
"""Records without times (NCCL Inspector) tell time in collectives only, of which waiting is a larger share."""


def check(ctx: Context) -> Iterator[Hit | CannotJudge]:
    """At most one finding; a straggler explains the skew and silences it."""
    run = ctx.run
    late = mended(run, LATE) if replayed(run) else []
    if any(not uneven(one) for one in late):
        return
    found = arrivals(run)
    if found is None or found.stragglers or found.once or late_hosts(run):
        return
    limit = ctx["wait_share"]
    least = ctx["least_collectives"]
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
    yield ctx.hit(
        trace_refs(
            (inputs.get(r), f"rank {r}: last in {n} of {c}, waits {format_ns(w or 0)} a collective")
            for r, n, c, w in rows.iter_rows()
        ),
        whom=tuple(rows["rank"].to_list()),
        title=f"Ranks wait {found.wait_share:.0%} of the {'recorded time' if timed else 'time in collectives'} for "
        "each other in collectives, and the last one changes",
        explanation="No rank is last significantly more often than chance: uneven work or jitter rather than one slow "
        "rank."
        + (" These are CPU collectives, where scheduling noise is normal." if found.cpu_only else "")
        + (_by_tokens(found.routed) if found.routed >= _ROUTED else ""),
        observed=f"{found.wait_share:.1%} waiting in {found.collectives} matched collectives",
        expected=f"below {limit:.0%}",
        severity=Severity.INFO if found.cpu_only or found.routed >= _ROUTED else None,
    )


def _by_tokens(share: float) -> str:
    return (
        f" {share:.0%} of it is in groups that exchange tokens of unequal number: the work of the experts follows what "
        "the router sends them."
    )
