"""The process was ending while NCCL's threads still ran.

What it finds
-------------
CUDA calls of NCCL failing with "driver shutting down".

Why it matters
--------------
It tells that the process was already on its way out, by an exception or by a normal exit without
ncclCommDestroy. It is never the cause.

How it decides
--------------
The message decides. With another failure in the log it is its consequence.

What to do
----------
Look for the exception or signal that ended the process; in programs that end normally, call
dist.destroy_process_group() before exit.

False positives
---------------
Programs that exit without destroying their communicators, which is harmless.

References
----------
CUDA runtime API, cudaErrorCudartUnloading (4).
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report
from nccl_insight.tables.run import Run

CLASS = "S"
SEVERITY = Severity.WARNING
ACTION = Action.NONE
NEEDS = ("errors",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "cuda-driver-shutdown",
        "NCCL threads still ran while the process was ending",
        'grep -nE "Traceback|Error|Killed|signal" <log of the same rank>   # what ended the '
        "process; else call dist.destroy_process_group() at the end",
        explanation="CUDA was being unloaded: the process had already left its main program. Look for why, "
        "before these lines; if it ended on purpose this is only untidy.",
        expected="communicators destroyed before the process ends",
    )
