"""An InfiniBand port went down while the job ran.

What it finds
-------------
The asynchronous event "port error" of a NIC.

Why it matters
--------------
All traffic of that port stops; peers see time-outs some seconds later.

How it decides
--------------
The event decides; its host is where to look.

What to do
----------
Look at link, cable, transceiver and switch port of the NICs named; take the host out until the link is
stable.

False positives
---------------
Ports that were taken down on purpose and are not used by the job.

References
----------
ibv_get_async_event(3), IBV_EVENT_PORT_ERR; NCCL troubleshooting guide, networking.
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
CAUSED_BY = ("ib-device-fatal",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "ib-port-error",
        "An InfiniBand port went down during the job",
        'ibstat; rdma statistic show link <device>/1; dmesg -T | grep -iE "mlx5|link down"   # '
        "on the hosts named",
        explanation="The NIC saw its link go down. Errors of other ranks that follow (status 12, closed "
        "connections) are its consequence.",
        expected="all ports active during the job",
    )
