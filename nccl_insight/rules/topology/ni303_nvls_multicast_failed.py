"""NVLink SHARP multicast could not be set up.

What it finds
-------------
CUDA failures in NCCL's NVLS code and failures to bind multicast memory.

Why it matters
--------------
Depending on the version, init fails or NVLS is left out, which makes all-reduce on NVSwitch machines
slower.

How it decides
--------------
The message, or a CUDA failure reported from nvls.cc. Printed at level INFO NCCL went on without NVLS:
then it is a warning.

What to do
----------
Check Fabric Manager and NVSwitch health on the host; NCCL_NVLS_ENABLE=0 gets the job running meanwhile.

False positives
---------------
CUDA failures that are not about multicast (initialisation, memory) are reported under their own names.

References
----------
NVIDIA/nccl issues 976 and 1488; pytorch/pytorch issue 177472; NCCL user guide, NCCL_NVLS_ENABLE.
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
        "nvls-multicast-failed",
        "NVLink SHARP (NVLS) multicast could not be set up",
        "systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A2 -i fabric   # on the hosts named; "
        "meanwhile NCCL_NVLS_ENABLE=0",
        explanation="Candidates in this order: the Fabric Manager was restarted while GPUs were in use (reset the "
        "GPUs or "
        "reboot), it is not running or of another version than the driver, an NVSwitch or NVLink is down.",
        expected="multicast memory binds on all GPUs",
        quiet=Severity.WARNING,
    )
