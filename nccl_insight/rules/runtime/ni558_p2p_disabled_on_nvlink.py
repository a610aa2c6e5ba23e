"""P2P is off between GPUs that NVLink connects.

What it finds
-------------
NCCL's message that NVML reports P2P as disabled between two GPUs with NVLink between them.

Why it matters
--------------
NCCL ends init with an error: no data flows at all. Between GPUs of one NVLink machine this is most likely
hardware.

How it decides
--------------
NCCL's message decides.

What to do
----------
Look at NVLink status, Xid and Fabric Manager of the host named.

False positives
---------------
Virtual machines or MIG set-ups that switch P2P off on purpose.

References
----------
NVIDIA/nccl src/graph/paths.cc; NCCL_IGNORE_DISABLED_P2P.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.ISOLATE
NEEDS = ("errors",)
CAUSED_BY: tuple[str, ...] = ("fabric-manager-issue", "xid-error")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "p2p-disabled-on-nvlink",
        "NVML says that P2P is off between GPUs that NVLink connects; NCCL ends init",
        "nvidia-smi nvlink -s; nvidia-smi topo -p2p n; dmesg -T | grep -i xid; systemctl status "
        "nvidia-fabricmanager   # on the host named; NCCL_IGNORE_DISABLED_P2P=1 only to diagnose",
        explanation="Between GPUs with NVLink P2P must work: an inactive link, a GPU in a bad state or the "
        "Fabric Manager is the likely reason.",
        expected="P2P on every pair of GPUs with NVLink",
        quiet=Severity.WARNING,
    )
