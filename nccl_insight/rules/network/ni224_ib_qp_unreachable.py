"""The peer's InfiniBand or RoCE address is unreachable.

What it finds
-------------
ibv_modify_qp failing with Network is unreachable, No such device or No route to host.

Why it matters
--------------
There is no route between the GIDs chosen at the two ends; no connection can be made.

How it decides
--------------
The message decides.

What to do
----------
On RoCE compare `show_gids` on both hosts: both ends need a RoCEv2 GID in networks that reach each other.
From NCCL 2.21 on leave NCCL_IB_GID_INDEX unset.

False positives
---------------
None known.

References
----------
NVIDIA/nccl-tests issue 185; NCCL user guide, NCCL_IB_GID_INDEX.
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


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "ib-qp-unreachable",
        "No route to the peer's InfiniBand/RoCE address",
        "show_gids; ip route get <peer address> oif <interface of the NIC>   # on both hosts",
        explanation="The operating system has no route from the local GID to the remote one. Candidates: a "
        "GID index that picks a link-local or wrong-VLAN address; NICs of different rails; a "
        "missing route.",
        expected="ibv_modify_qp reaches RTR",
    )
