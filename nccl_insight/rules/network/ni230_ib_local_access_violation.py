"""The NIC reported an access violation by a work request.

What it finds
-------------
The asynchronous event "local access violation", and completions with remote invalid request (status 9,
vendor error 138).

Why it matters
--------------
A request addressed memory outside of what was registered. The connection is dead afterwards.

How it decides
--------------
Event or completion status decide.

What to do
----------
Try without a network plugin and with NCCL_NET_GDR_LEVEL=0, update NIC firmware, and report it with both
ends' logs if it stays.

False positives
---------------
None known.

References
----------
NVIDIA/nccl issue 1710; ibv_get_async_event(3).
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
        "ib-local-access-violation",
        "The NIC reported a memory access violation",
        "NCCL_NET_GDR_LEVEL=0 <the same job>; ibv_devinfo | grep fw_ver; nvidia-smi | head -5   "
        "# compare the hosts named",
        explanation="One end wrote beyond the memory that the other had registered: different sizes posted "
        "by the two ranks, a driver or firmware fault, or GPUDirect RDMA on a broken path.",
        expected="no such event",
    )
