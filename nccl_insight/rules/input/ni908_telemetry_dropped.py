"""A recorder dropped events.

What it finds
-------------
Telemetry (NCCL Inspector 4.1 and later) that says how many operations or proxy records it dropped.

Why it matters
--------------
What was dropped cannot be judged, and the absence of an operation proves nothing.

How it decides
--------------
The recorder's own counters (`*_dropped_total`, `proxy_steps_overwritten_total`) are above zero.

What to do
----------
Raise the size of the recorder's rings (NCCL_INSPECTOR_*_RING_SIZE), dump more often, or record fewer operations
(NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES).

False positives
---------------
None: the recorder says so. Proxy records are often dropped on purpose.

References
----------
NCCL plugins/profiler/inspector/README.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._trace_notes import noted
from nccl_insight.tables.run import Run
from nccl_insight.units import plural

CLASS = "L"
SEVERITY = Severity.INFO
ACTION = Action.CONFIG
CONFIDENCE = Confidence.HIGH
NEEDS = ("inputs",)
SPEAKS = True
SOURCES = ("NCCL Inspector README",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all inputs."""
    texts, refs = noted(run, "telemetry-dropped")
    if not texts:
        return
    more = f" and {plural(len(texts) - 1, 'more recorder')}" if len(texts) > 1 else ""
    yield Hit(
        title=f"A recorder dropped events: {texts[0]}{more}",
        explanation="Operations that are not in these records may have run; nothing is concluded from their absence.",
        observed=f"{plural(len(texts), 'recorder')} with dropped events",
        next_step="NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES, larger NCCL_INSPECTOR_*_RING_SIZE, or a shorter dump interval",
        evidence=refs[:5],
        absence=None if refs else texts[0],
    )
