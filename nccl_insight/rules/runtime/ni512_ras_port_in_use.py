"""The port of NCCL's RAS client is taken by another NCCL process.

What it finds
-------------
The RAS subsystem failing to listen on localhost:28028.

Why it matters
--------------
Only one process a host can serve `ncclras`; the others go on without. Nothing is wrong.

How it decides
--------------
The message of the RAS code decides.

What to do
----------
Nothing. To query a certain job, give it its own NCCL_RAS_ADDR.

False positives
---------------
None known.

References
----------
NCCL troubleshooting guide, RAS.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report
from nccl_insight.tables.run import Run

CLASS = "I"
SEVERITY = Severity.INFO
ACTION = Action.NONE
NEEDS = ("errors",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "ras-port-in-use",
        "The RAS client port is used by another NCCL process (harmless)",
        "nothing to do; to tell jobs apart set NCCL_RAS_ADDR=localhost:<port>",
        explanation="Several NCCL processes run on this host, and one of them already serves the RAS client "
        "port.",
        expected="one listener a host",
        quiet=None,
    )
