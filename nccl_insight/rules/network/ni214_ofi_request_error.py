"""A libfabric request completed with an error while the job ran.

What it finds
-------------
NET/OFI requests that completed with error, and libfabric calls that failed on a running communicator.

Why it matters
--------------
The collective cannot finish; the communicator is aborted.

How it decides
--------------
The plugin's message decides.

What to do
----------
Look at the provider's error in the message: unreachable or undeliverable points at the peer process or at
the security group; remote and local access errors at memory registration.

False positives
---------------
None known. When the peer stopped first, its own error is the cause.

References
----------
aws/aws-ofi-nccl src (NCCL_OFI_WARN); libfabric man page fi_cq(3).
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report
from nccl_insight.rules._faults import ANY, others
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.TRIAGE
NEEDS = ("errors",)
CAUSED_BY = others(
    ANY,
    "ofi-request-error",
    "bootstrap-connect-refused",
    "bootstrap-connect-timeout",
    "ib-completion-retry-exceeded",
)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "ofi-request-error",
        "A libfabric request completed with error",
        "fi_pingpong -p efa <host of the peer>; then read the first error on the peer's rank   # "
        "between the two hosts",
        explanation="Candidates in this order: the process at the other end is gone; the hosts may not talk "
        "to each other (on AWS: the security group must allow all traffic to and from itself); a "
        "device or link fault.",
        expected="requests complete without error",
    )
