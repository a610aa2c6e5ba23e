"""The kernel refused the parameters of an InfiniBand connection.

What it finds
-------------
ibv_modify_qp failing with Invalid argument (EINVAL) or another error than time-out and unreachable.

Why it matters
--------------
The queue pair cannot be brought up; no connection can be made.

How it decides
--------------
The message decides. The most frequent reason is a GID index that is empty or of another type at one end.

What to do
----------
Unset NCCL_IB_GID_INDEX on NCCL 2.21 or later; before, set it to the RoCEv2 entry of `show_gids` that
exists at the same index on all hosts. Then compare MTU and link layer of both ends.

False positives
---------------
None known.

References
----------
NCCL troubleshooting guide, networking (ibv_modify_qp failed with error Invalid argument).
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
        "ib-qp-invalid-argument",
        "ibv_modify_qp was refused",
        'show_gids; ibv_devinfo -v | grep -E "link_layer|active_mtu|GID"   # on both hosts of '
        "the failing pair",
        explanation="Candidates in this order: NCCL_IB_GID_INDEX names an entry that is empty or of another "
        "subnet at one end; the two ends are of different link layers; a driver that lacks a "
        "requested feature.",
        expected="ibv_modify_qp succeeds",
    )
