"""A TCP connection to a peer timed out.

What it finds
-------------
Connects of the bootstrap or of the socket network that got no answer.

Why it matters
--------------
Packets vanish: a firewall drops them, or the address is on an interface that the peer cannot reach. The
job waits and then fails.

How it decides
--------------
The connect message with a time-out, also as the retry message that older versions print at level INFO.

What to do
----------
Name the interface that all hosts share with NCCL_SOCKET_IFNAME and open the port range
(net.ipv4.ip_local_port_range) between the hosts.

False positives
---------------
A host under heavy load at start; then later retries succeed and init completes.

References
----------
NCCL troubleshooting guide, networking; NCCL user guide, NCCL_SOCKET_IFNAME.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report
from nccl_insight.rules._faults import CONFIGURATION
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.TRIAGE
NEEDS = ("errors",)
CAUSED_BY = (*CONFIGURATION, "ifname-wrong")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "bootstrap-connect-timeout",
        "Connecting to a peer times out",
        "nc -vz -w 5 <address> <port from the message>; ip route get <address>   # from the rank "
        "that reports it",
        explanation="No answer at all, unlike a refusal: a firewall that drops packets, or an address on an "
        "interface (veth, docker0, a management network) that the other host cannot reach.",
        expected="an answer within the TCP time-out",
        quiet=Severity.WARNING,
    )
