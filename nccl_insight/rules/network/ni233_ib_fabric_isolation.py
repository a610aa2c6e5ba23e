"""The hosts may be on InfiniBand fabrics that are not connected.

What it finds
-------------
InfiniBand connections between hosts that get no acknowledgement, as when a cloud places machines on
separate fabrics.

Why it matters
--------------
Ethernet between such hosts works, InfiniBand never will, until they are placed together.

How it decides
--------------
A hint, never a verdict: it accompanies ib-completion-retry-exceeded when no port or device event explains
that.

What to do
----------
Run ib_write_bw or ibping between the two hosts; if nothing gets through, have both in one placement
group, availability set or partition (P_Key).

False positives
---------------
All other reasons for lost packets.

References
----------
stas00/ml-engineering, debug; Azure HPC documentation on InfiniBand and availability sets.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.facts.errors import present
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._hints import hint
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.INFO
ACTION = Action.TRIAGE
NEEDS = ("errors",)
CONFIDENCE = Confidence.LOW


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """A candidate beside unacknowledged packets that no event explains."""
    if present(run) & {"ib-port-error", "ib-device-fatal"}:
        return
    yield from hint(
        run,
        ("ib-completion-retry-exceeded",),
        "one-fabric",
        "Possible cause: the two hosts are not on one InfiniBand fabric",
        "ibstat <device> | grep -E 'Port GUID|SM lid|Base lid'   # on both hosts: one fabric has one SM lid; "
        "then ib_write_bw "
        "between the two",
        "If the very first transfer between two hosts fails like this, they may never have been connected: another "
        "subnet, partition key or (in clouds) placement.",
        "ib_write_bw between the two hosts works",
    )
