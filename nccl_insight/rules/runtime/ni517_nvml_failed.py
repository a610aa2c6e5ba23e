"""The management library of the driver (NVML) does not work.

What it finds
-------------
NVML failing to load, to initialise or to answer NCCL's questions, at level WARN.

Why it matters
--------------
NCCL needs NVML to identify GPUs and NVLinks; init fails without it.

How it decides
--------------
The message decides; the same failures at level INFO are optional queries and left out.

What to do
----------
Run nvidia-smi in the container. "Driver Not Loaded" means the kernel module, "Driver/library version
mismatch" a driver that was updated without reloading.

False positives
---------------
None known.

References
----------
NVML API reference; NVIDIA/nccl src/misc/nvmlwrap.cc.
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


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "nvml-failed",
        "NVML does not work",
        "nvidia-smi; cat /proc/driver/nvidia/version; ls -l /dev/nvidia*   # on the hosts named, "
        "in the container",
        explanation='The text after "failed:" is NVML\'s own reason. If nvidia-smi fails in the same way, the '
        "fault is the driver or what the container sees of it, not NCCL.",
        expected="nvidia-smi works in the job's container",
    )
