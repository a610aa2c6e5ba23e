"""/dev/shm is too small for NCCL's segments.

What it finds
-------------
Shared memory segments that cannot be created or extended for lack of space, in the wordings of all
versions.

Why it matters
--------------
Ranks of one node that use shared memory cannot connect. Containers have 64 MiB of /dev/shm unless told
otherwise.

How it decides
--------------
"No space left on device" or the failure to extend a segment. Versions before 2.19 print no reason: then a
failed creation without a sign of missing permission counts.

What to do
----------
Start the container with --shm-size=1g or more (Kubernetes: an emptyDir of medium Memory at /dev/shm), or
--ipc=host; remove /dev/shm/nccl-* files that no process has open (``fuser`` tells).

False positives
---------------
None known.

References
----------
NCCL troubleshooting guide, shared memory; NVIDIA/nccl-tests issue 166.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.facts.errors import SHM_FAILED, present
from nccl_insight.facts.settings import named
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._errors import report, trouble
from nccl_insight.tables.run import Run
from nccl_insight.units import format_bytes

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.CONFIG
NEEDS = ("errors",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """Stated lack of space, else a failed creation without another reason."""
    found = trouble(run, "shm-too-small")
    confidence = None
    if found is None:
        if present(run) & {"shm-permission", "shm-attach-missing"}:
            return
        found = trouble(run, SHM_FAILED)
        confidence = Confidence.MEDIUM
    if found is None:
        return
    size = found.value("wanted_bytes")
    wanted = f": {format_bytes(int(size))} did not fit" if size and len(size) < 16 else ""
    where = f" on {named(found.hosts)}" if found.hosts else ""
    yield from report(
        run,
        "shm-too-small",
        f"/dev/shm is too small{where}{wanted}",
        "df -h /dev/shm; ls -l /dev/shm   # inside the container; fix: docker run --shm-size=1g (or --ipc=host)",
        explanation="Each pair of ranks that talks through shared memory needs several MiB in /dev/shm. Stale "
        "nccl-* files of "
        "killed jobs take space too.",
        expected="enough room in /dev/shm: as a rule 1 GiB for a node of 8 ranks",
        confidence=confidence,
        quiet=Severity.WARNING,
        rows=found,
    )
