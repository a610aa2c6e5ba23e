"""A self-diagnosis of NCCL failed.

What it finds
-------------
`NCCL DIAG` lines (2.31 and later) that are neither OK nor INFO.

Why it matters
--------------
NCCL checks GPUs, links and settings itself on request; what it marks as failed explains slow or failing
jobs.

How it decides
--------------
The level of the DIAG line decides: failed checks are errors, warnings are warnings.

What to do
----------
Do what the line says; each names the check and the ranks.

False positives
---------------
None known.

References
----------
NCCL troubleshooting guide, diagnostics (2.31).
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report
from nccl_insight.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.TRIAGE
NEEDS = ("errors",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "nccl-diag-failed",
        "NCCL's own diagnosis reports a failed check",
        "NCCL_RUN_DIAGNOSTICS=1 <the same job>   # to repeat it; the first line names the check",
        explanation="The text of the first line is NCCL's own judgement.",
        expected="NCCL DIAG [OK]",
    )
