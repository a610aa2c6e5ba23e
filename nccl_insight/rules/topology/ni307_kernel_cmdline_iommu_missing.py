"""RCCL misses iommu=pt on the kernel command line.

What it finds
-------------
RCCL's warning about the IOMMU setting of the kernel.

Why it matters
--------------
With the IOMMU translating, GPU peer-to-peer transfers can be slow, unstable or hang.

How it decides
--------------
The message decides. It is a hint, not a fault: most machines run well without.

What to do
----------
Boot with iommu=pt (and amd_iommu=on), or switch the IOMMU off in the BIOS, if transfers hang or are slow.

False positives
---------------
Machines whose IOMMU is off: the warning does not look at that.

References
----------
ROCm/rccl issue 1454; ROCm system optimisation guides.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report
from nccl_insight.tables.run import Run

CLASS = "I"
SEVERITY = Severity.INFO
ACTION = Action.CONFIG
NEEDS = ("errors",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "kernel-cmdline-iommu-missing",
        "The kernel runs without iommu=pt",
        "cat /proc/cmdline; dmesg | grep -i iommu | head",
        explanation="RCCL recommends pass-through mode for the IOMMU. If this job hangs or its transfers are "
        "slow, try it; else nothing needs doing.",
        expected="iommu=pt on the kernel command line",
        quiet=None,
    )
