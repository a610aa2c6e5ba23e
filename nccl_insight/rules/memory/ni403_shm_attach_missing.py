"""A peer's shared memory segment is not there.

What it finds
-------------
Attaching to /dev/shm/nccl-* failing because the file does not exist.

Why it matters
--------------
The rank that created the segment removed it or never did, or the two ranks do not share /dev/shm.

How it decides
--------------
The message decides.

What to do
----------
Check whether the ranks run in one IPC namespace (containers of one node: --ipc=host or a shared /dev/shm
volume), and whether systemd removes files of logged-out users (RemoveIPC=no).

False positives
---------------
When the creating rank failed first, its error is the cause.

References
----------
NCCL troubleshooting guide, runtime (RemoveIPC); NVIDIA/nccl issue 1589.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.TRIAGE
NEEDS = ("errors",)
CAUSED_BY = ("shm-too-small", "shm-permission", "cuda-oom-init", "cuda-unhandled")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "shm-attach-missing",
        "A shared memory segment of a peer is missing",
        "grep -i RemoveIPC /etc/systemd/logind.conf; ls /dev/shm | grep nccl; readlink "
        "/proc/<pid>/ns/ipc   # compare the ranks of one node",
        explanation="Candidates in this order: the ranks run in containers with separate /dev/shm; "
        "systemd-logind removed the files (RemoveIPC); the rank that owned the segment stopped.",
        expected="the segment exists until both ends attached",
    )
