"""The traces have no common clock, so start skew is not judged.

What it finds
-------------
Traces of several hosts, or traces whose matched collectives do not end together.

Why it matters
--------------
Clocks of different hosts differ by 10 us to milliseconds, more than the skew that one looks for. Who arrives last is
then taken from durations instead.

How it decides
--------------
Host names in the traces; without them, whether the ends of matched collectives agree within 100 us or a fifth of
their duration. Within one host, a GPU whose ends are off by more than that, and whose durations are those of the
others, has a clock that the profiler translated wrongly.

What to do
----------
Nothing, unless start skew itself is wanted: then synchronize the hosts' clocks by PTP.

False positives
---------------
Hosts with PTP clocks, which the traces do not tell.

References
----------
Kineto and CUPTI timestamps are those of the host clock.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._trace_notes import noted
from nccl_insight.tables.run import Run

CLASS = "L"
SEVERITY = Severity.INFO
ACTION = Action.NONE
NEEDS = ("inputs",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """At most one finding."""
    texts, evidence = noted(run, "clocks-not-comparable")
    if texts:
        yield Hit(
            title="The traces have no common clock: start skew is not judged",
            explanation=texts[0],
            observed="no proof of a common clock",
            next_step="nothing needed; stragglers are judged by durations. For start skew, synchronize clocks by PTP",
            evidence=evidence,
            absence=None if evidence else texts[0],
        )
