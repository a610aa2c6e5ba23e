"""Setting up an InfiniBand connection timed out.

What it finds
-------------
ibv_modify_qp failing with Connection timed out (110), also as retries at level INFO.

Why it matters
--------------
The two NICs cannot resolve or reach each other, so ranks cannot connect.

How it decides
--------------
The message decides; retries alone are a warning.

What to do
----------
See which two NICs and GIDs the message names. Rail-only fabrics need NCCL_CROSS_NIC=0; routed RoCE needs
ARP/ND answers between the two addresses.

False positives
---------------
A link that came up late: then retries end and the connection is made.

References
----------
NVIDIA/nccl issue 2013; NCCL troubleshooting guide, networking.
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
CAUSED_BY = ("ib-device-fatal", "ib-port-error")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "ib-qp-timeout",
        "InfiniBand/RoCE connection set-up times out",
        "ib_write_bw -d <local device> --gid-index <index> <peer host>   # between the two NICs "
        "of the message; then NCCL_CROSS_NIC=0",
        explanation="Address resolution between the two NICs got no answer. Candidates in this order: the "
        "NICs are on different rails that are not connected; a VLAN, MTU or routing fault of "
        "RoCE; a port that is down.",
        expected="ibv_modify_qp reaches RTR",
        quiet=Severity.WARNING,
    )
