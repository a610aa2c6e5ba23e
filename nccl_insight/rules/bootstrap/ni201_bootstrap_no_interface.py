"""NCCL finds no usable network interface for its bootstrap.

What it finds
-------------
"no socket interface found" and its relatives, in the wordings of all versions.

Why it matters
--------------
Without an interface no rank can find the others; nothing starts, not even on one node.

How it decides
--------------
The message decides. When NCCL_SOCKET_IFNAME is set, the setting matches no interface and ifname-not-found
says so instead.

What to do
----------
Name an interface that is up and has an address with NCCL_SOCKET_IFNAME, or unset it; containers need a
network besides lo.

False positives
---------------
None known.

References
----------
NCCL user guide, NCCL_SOCKET_IFNAME; NVIDIA/nccl src/bootstrap.cc.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.facts.settings import value_of
from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.CONFIG
NEEDS = ("errors",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding, unless a set NCCL_SOCKET_IFNAME explains it."""
    if value_of(run, "NCCL_SOCKET_IFNAME"):
        return
    yield from report(
        run,
        "bootstrap-no-interface",
        "NCCL finds no usable network interface",
        'ip -brief address; echo "$NCCL_SOCKET_IFNAME $NCCL_SOCKET_FAMILY"   # inside the container, in the '
        "environment of the ranks",
        explanation="No interface is up with an address, or NCCL_SOCKET_IFNAME (not visible in this log) matches "
        "none; old versions also stop "
        "when the interface has an IPv6 address only.",
        quiet=None,
    )
