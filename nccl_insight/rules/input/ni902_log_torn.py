"""Several writers tore each other's lines.

What it finds
-------------
Lines that hold pieces of several records, because processes wrote to one file or terminal at the same
time.

Why it matters
--------------
Records that could not be put together again are lost; figures may be too low.

How it decides
--------------
What ingest could not read as whole records and recognized as torn.

What to do
----------
Give each process its own file: NCCL_DEBUG_FILE=/path/nccl.%h.%p.

False positives
---------------
None known.

References
----------
NCCL user guide, NCCL_DEBUG_FILE (the pattern must be unique for each process).
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
        "log-torn",
        "Lines were torn by several writers",
        "NCCL_DEBUG_FILE=/tmp/nccl.%h.%p <the same job>   # one file per process",
        "Whole records found inside torn lines were used; fragments were left out and counted.",
        "one record per line",
    )
