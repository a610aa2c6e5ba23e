"""Memory could not be registered with an InfiniBand NIC.

What it finds
-------------
ibv_reg_mr and its variants failing.

Why it matters
--------------
NCCL cannot send from or receive into that buffer; connections fail.

How it decides
--------------
The message decides. With "Cannot allocate memory" the locked-memory limit is named as a finding of its
own.

What to do
----------
Check `ulimit -l` in the environment of the ranks first; with GPU buffers check nvidia-peermem or DMA-BUF
support.

False positives
---------------
Probing registrations at start (DMA-BUF support) that NCCL expects to fail are of level INFO and reported
as information.

References
----------
NVIDIA/nccl-tests issue 206; NCCL troubleshooting guide, networking (memlock).
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


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "ib-reg-mr-failed",
        "Memory registration with the InfiniBand NIC failed",
        "ulimit -l; grep -i locked /proc/<pid of the rank>/limits; lsmod | grep -E 'nvidia_peermem|nv_peer_mem'   "
        "# in the environment of the ranks",
        explanation="Candidates in this order: the locked-memory limit (errno ENOMEM), GPU memory without "
        "nvidia-peermem or DMA-BUF (EFAULT, EINVAL, EOPNOTSUPP), a limit of the device.",
        expected="ibv_reg_mr succeeds",
    )
