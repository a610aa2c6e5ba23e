"""An InfiniBand queue could not be created.

What it finds
-------------
ibv_create_cq or ibv_create_qp failing when a connection is set up.

Why it matters
--------------
The connection cannot be made and init or the first collective fails.

How it decides
--------------
The message decides.

What to do
----------
Check the locked-memory limit of the process that failed (launchers such as Spark, slurmd or dockerd pass
on their own), then device limits and firmware.

False positives
---------------
None known.

References
----------
ibv_create_cq(3); NCCL troubleshooting guide, networking (memlock).
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
CAUSED_BY = ("memlock-limit",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "ib-create-cq-failed",
        "An InfiniBand queue could not be created",
        'grep -i "max locked memory" /proc/<pid of the rank>/limits; ulimit -l; ibv_devinfo -v | '
        "grep max_cq   # in the environment of the ranks",
        explanation="Queues are locked memory. Candidates in this order: the locked-memory limit of the "
        "launching daemon, too many queues for the device, a device that is passed on only in "
        "part.",
        expected="ibv_create_cq and ibv_create_qp succeed",
    )
