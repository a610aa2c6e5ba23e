"""Lines are missing from the log.

What it finds
-------------
Notes of log collectors and tools that say that they left lines out, and inputs that end in the middle of
a line.

Why it matters
--------------
What is not in such a log may still have happened, so nothing is concluded from absence.

How it decides
--------------
The collector's own note (Ray's "repeated N times", "...", cut lines) as ingest found it.

What to do
----------
Collect again without loss: RAY_DEDUP_LOGS=0, NCCL_DEBUG_FILE=/path/nccl.%h.%p on every rank.

False positives
---------------
None known.

References
----------
Ray documentation, log deduplication; NCCL user guide, NCCL_DEBUG_FILE.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._log_notes import log_notes
from nccl_insight.tables.run import Run

CLASS = "L"
SEVERITY = Severity.INFO
ACTION = Action.NONE
NEEDS = ("inputs",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all inputs."""
    yield from log_notes(
        run,
        "log-truncated",
        "Lines are missing from the log",
        "NCCL_DEBUG_FILE=/tmp/nccl.%h.%p <the same job>   # one complete file a process; under Ray also "
        "RAY_DEDUP_LOGS=0",
        "Conclusions that need a complete log were not drawn.",
        "every line that NCCL printed",
    )
