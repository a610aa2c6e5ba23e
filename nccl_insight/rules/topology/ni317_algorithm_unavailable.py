"""The forced algorithm and protocol leave no way to run a collective.

What it finds
-------------
NCCL finding no algorithm for a collective, which happens only when NCCL_ALGO or NCCL_PROTO narrow the
choice.

Why it matters
--------------
The call fails with ncclInvalidUsage.

How it decides
--------------
The message decides; it repeats the settings.

What to do
----------
Unset NCCL_ALGO and NCCL_PROTO, or add a fallback (NCCL_ALGO=NVLS,Ring).

False positives
---------------
None known.

References
----------
NCCL user guide, NCCL_ALGO and NCCL_PROTO; NVIDIA/nccl src/enqueue.cc.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.CONFIG
NEEDS = ("errors",)
CAUSED_BY = ("env-invalid-value", "collnet-unavailable")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "algorithm-unavailable",
        "NCCL_ALGO/NCCL_PROTO leave no algorithm for a collective",
        "unset NCCL_ALGO NCCL_PROTO   # or allow a fallback, e.g. NCCL_ALGO=NVLS,Ring",
        explanation="The message names the function and the settings: the forced combination does not exist "
        "for it on this topology.",
        expected="at least one algorithm and protocol",
        quiet=None,
    )
