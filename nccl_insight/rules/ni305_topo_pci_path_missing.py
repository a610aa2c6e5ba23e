"""NCCL cannot find a GPU or NIC in /sys.

What it finds
-------------
The failure to resolve a PCI device below /sys/class/pci_bus or /sys/devices.

Why it matters
--------------
Older versions of NCCL cannot build a topology without it and stop.

How it decides
--------------
The message for a PCI path decides. The same message for /sys/class/net is harmless and left out.

What to do
----------
Mount /sys into the container; on WSL2 and other virtual machines without a PCI tree use a newer NCCL or
NCCL_TOPO_FILE.

False positives
---------------
Newer versions print it and go on; then init completes.

References
----------
NVIDIA/nccl issue 573; NCCL troubleshooting guide, topology detection.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report
from nccl_insight.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.CONFIG
NEEDS = ("errors",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "topo-pci-path-missing",
        "A device's PCI path is missing in /sys",
        "ls -l /sys/class/pci_bus | head; nvidia-smi --query-gpu=pci.bus_id --format=csv   # "
        "inside the container",
        explanation="NCCL reads the PCI tree below /sys to learn how GPUs and NICs are connected. In WSL2, "
        "some virtual machines and containers without /sys it is not there.",
        expected="/sys/class/pci_bus holds the bus of each GPU",
    )
