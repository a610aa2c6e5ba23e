"""NICs of different rails may not reach each other.

What it finds
-------------
Connection set-up between two NICs that gets no answer or no route, as on fabrics that connect only NICs
of the same rail.

Why it matters
--------------
NCCL may pair NICs of different rails; on a rail-only fabric those connections cannot be made.

How it decides
--------------
A hint, never a verdict: it accompanies ib-qp-timeout and ib-qp-unreachable. NCCL's own hint (2.30) about
cross-rail connections makes it a warning.

What to do
----------
Set NCCL_CROSS_NIC=0 and run again; if that works the rails are not connected.

False positives
---------------
All other reasons for unanswered connections.

References
----------
NVIDIA/nccl issue 2013; NCCL user guide, NCCL_CROSS_NIC.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._hints import hint
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.INFO
ACTION = Action.CONFIG
NEEDS = ("errors",)
SPEAKS = True
CONFIDENCE = Confidence.LOW


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """A candidate beside unanswered connections."""
    yield from hint(
        run,
        ("ib-qp-timeout", "ib-qp-unreachable"),
        "cross-rail",
        "Possible cause: the NICs are on different rails that are not connected",
        "NCCL_CROSS_NIC=0 <the same job>   # if that works, the fabric is rail-only; else ping -I <interface> "
        "<address>",
        "If the two devices of the message have different indices (mlx5_1 and mlx5_4), they are on different rails. "
        "Rail-only fabrics do not connect those.",
        "connections only within a rail, or a fabric that joins the rails",
    )
