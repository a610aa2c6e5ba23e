"""The OFI plugin cannot register memory.

What it finds
-------------
Failed memory registration of aws-ofi-nccl or another libfabric plugin.

Why it matters
--------------
Without registration the NIC cannot reach the buffer, and the connection fails.

How it decides
--------------
The plugin's message decides.

What to do
----------
EINVAL: DMA-BUF or huge pages; ENOMEM: locked memory and huge pages.

False positives
---------------
None known.

References
----------
aws-ofi-nccl documentation; fi_mr(3); FI_EFA_USE_HUGE_PAGE.
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
CAUSED_BY: tuple[str, ...] = ("cuda-hardware-error", "xid-error")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "ofi-reg-mr-failed",
        "The OFI plugin cannot register memory",
        "ulimit -l; grep -i huge /proc/meminfo; then, one at a time: FI_EFA_USE_HUGE_PAGE=0, "
        "OFI_NCCL_DISABLE_DMABUF=1; modinfo efa; fi_info -p efa   # on the host named",
        explanation="Candidates in this order: DMA-BUF that the kernel or driver does not support (RC -22), huge "
        "pages used up, the locked-memory limit (RC -12), fork safety settings (RDMAV_FORK_SAFE).",
        expected="memory registration succeeds",
        quiet=Severity.WARNING,
    )
