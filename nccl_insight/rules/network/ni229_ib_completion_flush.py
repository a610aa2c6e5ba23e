"""Work requests were flushed after an earlier InfiniBand error.

What it finds
-------------
Completions with status 5 (vendor error 249): everything still queued when a connection failed.

Why it matters
--------------
They are the echo of another error on the same connection and say nothing about its cause.

How it decides
--------------
The completion status decides. With an earlier error in the log this is a consequence of it.

What to do
----------
Look for the first completion error or asynchronous event, on this host or at the peer.

False positives
---------------
None known.

References
----------
ibv_poll_cq(3), IBV_WC_WR_FLUSH_ERR.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report
from nccl_insight.tables.run import Run

CLASS = "S"
SEVERITY = Severity.ERROR
ACTION = Action.NONE
NEEDS = ("errors",)
CAUSED_BY = (
    "ib-completion-retry-exceeded",
    "ib-completion-local-prot",
    "ib-local-access-violation",
    "ib-device-fatal",
    "ib-port-error",
)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "ib-completion-flush",
        "InfiniBand work requests were flushed after an earlier error",
        'grep -nE "Got completion|async event" <logs of all ranks> | sort -t: -k2n | head   # '
        "the first that is not status 5 is the cause",
        explanation="Flushed requests follow another error on the same connection. If no other is in this "
        "log, it is in the log of the peer, or at a level or time that was not kept.",
        expected="status 0",
    )
