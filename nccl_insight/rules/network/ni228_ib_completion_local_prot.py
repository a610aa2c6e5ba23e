"""An InfiniBand transfer was refused access to memory.

What it finds
-------------
Completions with local protection (4), remote access (10), remote operation (11) or memory window (6)
errors.

Why it matters
--------------
The NIC may not read or write the buffer: registration or GPUDirect RDMA is broken.

How it decides
--------------
The completion status decides.

What to do
----------
Run once with NCCL_NET_GDR_LEVEL=0. If that works, GPUDirect RDMA is the fault: ACS or IOMMU on the path,
nvidia-peermem, driver or firmware.

False positives
---------------
Buffers that the program freed while the transfer ran give the same status.

References
----------
NVIDIA/nccl issue 928; NCCL troubleshooting guide, GPU Direct.
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
        "ib-completion-local-prot",
        "An InfiniBand transfer failed with a memory access error",
        "NCCL_NET_GDR_LEVEL=0 <the same job>   # if that works: lspci -vvv | grep -i acsctl; "
        'lsmod | grep -E "nvidia_peermem|nv_peer"',
        explanation="The NIC was not allowed to access the memory it was given. With GPU buffers this "
        "usually means that PCIe ACS or an IOMMU breaks GPUDirect RDMA; with host buffers, that "
        "memory was unmapped too early.",
        expected="status 0",
    )
