"""The address that NCCL should listen on cannot be bound.

What it finds
-------------
A failed bind of the bootstrap or network socket.

Why it matters
--------------
Rank 0 (or the root named by NCCL_COMM_ID) cannot be reached, so no communicator starts.

How it decides
--------------
The message of the failed bind decides. The RAS client socket is a different, harmless case
(ras-port-in-use).

What to do
----------
Check that the address of NCCL_COMM_ID, or of the interface chosen by NCCL_SOCKET_IFNAME, exists in this
container or host, and that the port is free.

False positives
---------------
None known.

References
----------
NCCL user guide, NCCL_COMM_ID and NCCL_SOCKET_IFNAME.
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
CAUSED_BY = ("ifname-wrong",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "bootstrap-bind-failed",
        "The bootstrap address cannot be bound on this host",
        'ip -brief address; echo "$NCCL_COMM_ID $NCCL_SOCKET_IFNAME"; ss -ltn   # in the same '
        "container as the failing rank",
        explanation='"Cannot assign requested address" means that the address is not on this host or inside '
        "this container (a container sees its bridge address, not the host's); \"Address already "
        'in use" means that another process holds the port.',
        expected="an address of this host or container",
    )
