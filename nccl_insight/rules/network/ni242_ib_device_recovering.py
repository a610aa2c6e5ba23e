"""NCCL took a failed NIC out of use and went on.

What it finds
-------------
The failover messages of NCCL 2.30 and later: a device marked as failed, recovery started.

Why it matters
--------------
The job survives with less bandwidth; the NIC needs attention.

How it decides
--------------
The messages decide. When NCCL says that the error is fatal, the completion error is the finding to act
on.

What to do
----------
Check the named device and plan to replace the host; bandwidth stays lower until the job restarts on
healthy NICs.

False positives
---------------
None known.

References
----------
NVIDIA/nccl src/transport/net_ib (2.30).
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report
from nccl_insight.tables.run import Run

CLASS = "P"
SEVERITY = Severity.WARNING
ACTION = Action.ISOLATE
NEEDS = ("errors",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "ib-device-recovering",
        "NCCL marked a NIC as failed and tries to go on without it",
        "ibstat; rdma statistic show; dmesg -T | grep -i mlx5   # on the hosts named",
        explanation="NCCL moves the traffic of the failed device to the others. The message names the device.",
        expected="all devices in use",
    )
