"""A queue of an InfiniBand device reported a fatal event.

What it finds
-------------
Asynchronous fatal events on one queue pair, completion queue or shared receive queue.

Why it matters
--------------
The connection of that queue is lost. The event tells nothing against the device: replacing it would change nothing.

How it decides
--------------
The event decides: those that name a queue, or are called work queue errors, are not of the device.

What to do
----------
Look for the first error of the peer, of the application or of memory registration.

False positives
---------------
None known.

References
----------
ibv_get_async_event(3): IBV_EVENT_QP_FATAL, QP_REQ_ERR, QP_ACCESS_ERR, CQ_ERR, SRQ_ERR; NVIDIA/nccl net_ib.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.facts.links import devices_of
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._errors import report, trouble
from nccl_insight.rules._faults import ANY, others
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.TRIAGE
CONFIDENCE = Confidence.MEDIUM
NEEDS = ("errors",)
CAUSED_BY = (*others(ANY, "ib-completion-retry-exceeded"), "peer-died", "ib-completion-flush")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all events."""
    found = trouble(run, "ib-queue-error")
    if found is None:
        return
    yield from report(
        run,
        "ib-queue-error",
        "A queue of an InfiniBand device reported a fatal event",
        "read the first error of this rank and of its peers before this line; the event tells of one queue, not "
        "of the device",
        explanation="Usually an effect of the peer, of memory that was "
        "unmapped while in use, or of an earlier error on the connection.",
        rows=found,
        devices=devices_of(run, found.rows),
    )
