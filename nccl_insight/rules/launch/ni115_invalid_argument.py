"""NCCL rejected an argument of the calling program.

What it finds
-------------
Wrong roots, types, counts, reduction operations, ranks, configurations, null pointers and buffers of
another device, as NCCL's argument checks report them.

Why it matters
--------------
The call returned ncclInvalidArgument or ncclInvalidUsage and did nothing; ranks that passed valid
arguments may wait for ever.

How it decides
--------------
The message of NCCL's argument check decides.

What to do
----------
Correct the call. The message names function and value; with NCCL_CHECK_POINTERS=1 NCCL also checks where
buffers live.

False positives
---------------
Programs that probe NCCL with arguments they expect to be refused.

References
----------
NCCL user guide, types (ncclInvalidArgument, ncclInvalidUsage); NVIDIA/nccl src/misc/argcheck.cc.
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


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "invalid-argument",
        "NCCL rejected an argument of the calling program",
        "fix the call that the message names; to see all calls: NCCL_DEBUG=INFO "
        "NCCL_DEBUG_SUBSYS=INIT,ENV,COLL",
        explanation="The check is in NCCL, the value comes from the program: the first line below names the "
        "function and the value.",
        expected="arguments inside the documented range",
        quiet=None,
    )
