"""The NVIDIA Fabric Manager is not running properly.

What it finds
-------------
CUDA 802 (system not yet initialized), and NVLS failures that usually have this cause.

Why it matters
--------------
On NVSwitch machines nothing can use the GPUs, or NVLS cannot be used, until the Fabric Manager has set up
the switches.

How it decides
--------------
CUDA 802 decides. Beside a failed NVLS set-up it is a candidate only: a warning when NCCL's own text names
the Fabric Manager, else information.

What to do
----------
Start the service in the version of the driver; after a restart reset the GPUs or reboot the host.

False positives
---------------
NVLS failures with other reasons.

References
----------
NVIDIA Fabric Manager user guide; CUDA driver API, CUDA_ERROR_SYSTEM_NOT_READY (802); NVIDIA/nccl issues
976 and 1488.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._errors import report, trouble
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.ISOLATE
NEEDS = ("errors", "tracebacks")
SPEAKS = True
_NEXT = (
    "systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -iA3 fabric; dmesg -T | grep -i nvswitch   # "
    "on the hosts named"
)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """CUDA's own statement, else a candidate beside NVLS failures."""
    if trouble(run, "fabric-manager-issue") is not None:
        yield from report(
            run,
            "fabric-manager-issue",
            "The GPU fabric is not initialized (CUDA 802): the Fabric Manager is not running or not ready",
            _NEXT,
            explanation="CUDA refuses work until the Fabric Manager has configured the NVSwitches. Its version has "
            "to be that of the driver.",
            quiet=None,
        )
        return
    nvls = trouble(run, "nvls-multicast-failed")
    if nvls is None:
        return
    stated = nvls.telling("advice", "fabric-manager") is not None
    yield from report(
        run,
        "fabric-manager-issue",
        "Possible cause: the Fabric Manager was restarted or is not healthy",
        _NEXT,
        explanation="NVLS set-up fails like this when the Fabric Manager was restarted without a GPU reset, or "
        "runs in another "
        "version than the driver. The log cannot prove it; the command can.",
        severity=Severity.WARNING if stated else Severity.INFO,
        confidence=Confidence.MEDIUM if stated else Confidence.LOW,
        rows=nvls,
    )
