"""NCCL cannot allocate host memory through cuMem.

What it finds
-------------
A CUDA failure in NCCL's allocation of shared host memory (alloc.h or shm.cc, on the way through shm.cc).

Why it matters
--------------
Since 2.24 NCCL allocates host memory for SHM through cuMem, which needs NUMA system calls: containers without
CAP_SYS_NICE and some drivers refuse them, and init fails. 2.26.3 and later fall back by themselves, and hang or fail to
attach where only some ranks did.

How it decides
--------------
The failed call is in alloc.h or shm.cc with "invalid argument" or "operation not permitted", and the result codes
after it lead through shm.cc.

What to do
----------
NCCL_CUMEM_HOST_ENABLE=0, or docker run --cap-add SYS_NICE.

False positives
---------------
None known.

References
----------
NCCL user guide, NCCL_CUMEM_HOST_ENABLE; NVIDIA/nccl src/transport/shm.cc; NVIDIA/nccl#2190.
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
SPEAKS = True
CAUSED_BY = ("cuda-driver-mismatch", "xid-error")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "cumem-host-alloc-failed",
        "NCCL cannot allocate shared host memory through cuMem",
        "NCCL_CUMEM_HOST_ENABLE=0 <the same job>; docker run --cap-add SYS_NICE (Kubernetes: "
        "securityContext.capabilities.add "
        "SYS_NICE)",
        explanation="The allocation asks for memory of a NUMA node, which a container may refuse. NCCL 2.24 to "
        "2.26.2 fail "
        "on it; later versions fall back.",
        quiet=Severity.WARNING,
    )
