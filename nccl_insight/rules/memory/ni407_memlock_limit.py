"""The locked-memory limit of the ranks is too small for RDMA.

What it finds
-------------
InfiniBand registrations and queues that fail because memory cannot be allocated.

Why it matters
--------------
RDMA pins memory; with the usual default of 64 KiB or 8 MiB nothing can be registered.

How it decides
--------------
A failed ibv_reg_mr with "Cannot allocate memory" (ENOMEM) is a warning. A failed queue creation says so
less clearly and gives a hint only. The limit itself is not in the log.

What to do
----------
Set the limit to unlimited where the ranks are started: limits.conf, LimitMEMLOCK= of slurmd or dockerd,
--ulimit memlock=-1. mpirun's remote daemons have their own limit.

False positives
---------------
Real shortage of host memory, and devices out of resources, answer the same.

References
----------
NVIDIA/nccl-tests issue 206; NCCL troubleshooting guide, networking (memlock).
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._errors import report, trouble
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.WARNING
ACTION = Action.CONFIG
NEEDS = ("errors",)
SPEAKS = True
CONFIDENCE = Confidence.MEDIUM


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """A failed registration for lack of memory, else a failed queue."""
    registration = trouble(run, "ib-reg-mr-failed")
    queue = trouble(run, "ib-create-cq-failed")
    certain = registration.telling("no-memory") if registration else None
    rows = certain or (queue.telling("no-memory") if queue else None)
    if rows is None or not rows.loud:
        return
    yield from report(
        run,
        "memlock-limit",
        "The locked-memory limit is probably too small for RDMA",
        "ulimit -l   # in the ranks' own environment, as mpirun or srun start them: srun bash -c 'ulimit -l'; must be "
        "unlimited",
        explanation="The kernel refused to pin memory. The limit that counts is that of the daemon that started "
        "the ranks (slurmd, sshd, dockerd, orted), not that of your login shell.",
        expected="max locked memory unlimited",
        severity=None if certain else Severity.INFO,
        confidence=None if certain else Confidence.LOW,
        rows=rows,
    )
