"""CollNet (SHARP) was requested and cannot be used.

What it finds
-------------
NCCL or the SHARP library saying that collective offload does not work.

Why it matters
--------------
NCCL uses rings and trees instead; that is slower than asked for, but works.

How it decides
--------------
The messages decide: they are printed only when CollNet was asked for.

What to do
----------
Check that sharpd and the aggregation manager run, that the subnet manager does not use the same port, and
that all hosts have the same number of CollNet devices.

False positives
---------------
None known; where offload is not wanted, set NCCL_COLLNET_ENABLE=0.

References
----------
NVIDIA/nccl issue 1219; NCCL user guide, NCCL_COLLNET_ENABLE.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report
from nccl_insight.tables.run import Run

CLASS = "P"
SEVERITY = Severity.WARNING
ACTION = Action.CONFIG
NEEDS = ("errors",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "collnet-unavailable",
        "CollNet/SHARP was requested and is not usable",
        'sharp_hello; ibstat | grep -A3 "SM lid"; echo "$NCCL_COLLNET_ENABLE $NCCL_ALGO"   # on '
        "the hosts named",
        explanation='The first message says what is missing. "port is used by SM" means that the subnet '
        "manager runs on this port; a missing plugin means that NCCL has nothing to offload to.",
        expected="CollNet connections are made",
        quiet=Severity.WARNING,
    )
