"""NCCL may not write to /dev/shm.

What it finds
-------------
Shared memory calls failing with Permission denied.

Why it matters
--------------
Ranks of one node that talk through shared memory cannot start.

How it decides
--------------
The message decides.

What to do
----------
Give /dev/shm the mode 1777, or mount it so in the container.

False positives
---------------
None known.

References
----------
NVIDIA/nccl issue 328.
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
        "shm-permission",
        "/dev/shm is not writable for the job's user",
        "ls -ld /dev/shm; id; mount | grep /dev/shm   # inside the container; fix: chmod 1777 /dev/shm",
        explanation="The user of the job may not create files in /dev/shm.",
        expected="drwxrwxrwt on /dev/shm",
    )
