"""An InfiniBand device failed.

What it finds
-------------
Asynchronous events that end a device or queue: local catastrophic error, device fatal.

Why it matters
--------------
The NIC stopped working until it is reset; all its connections are lost.

How it decides
--------------
The event decides.

What to do
----------
Take the host out, reset or replace the NIC, check firmware and PCIe errors in dmesg.

False positives
---------------
None known.

References
----------
ibv_get_async_event(3), IBV_EVENT_DEVICE_FATAL; NVIDIA/nccl issue 230.
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


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "ib-device-fatal",
        "An InfiniBand device reported a fatal error",
        'dmesg -T | grep -iE "mlx5|aer|pcie" | tail -50; mstflint -d <pci address> q   # on the hosts named',
        explanation="The device gave up by itself: firmware, PCIe or hardware. What other ranks report "
        "afterwards is a consequence.",
        expected="no fatal event",
    )
