"""No transport accepts a pair of ranks.

What it finds
-------------
NCCL's message that neither P2P, SHM nor NET can connect two ranks.

Why it matters
--------------
Init fails on that rank.

How it decides
--------------
NCCL's message decides; the rank is the one that printed it.

What to do
----------
Look at what the user switched off (NCCL_P2P_DISABLE, NCCL_SHM_DISABLE, NCCL_NET) and whether containers share
/dev/shm and the pid namespace.

False positives
---------------
None known.

References
----------
NVIDIA/nccl src/transport.cc selectTransport.
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
CAUSED_BY: tuple[str, ...] = ()


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "no-transport",
        "No transport accepts a pair of ranks",
        'env | grep -E "NCCL_(P2P|SHM|IB|NET)"; in containers: docker run --ipc=host --pid=host, or one '
        "container with all GPUs of the host",
        explanation="P2P, SHM and NET were all refused for this pair. Candidates: transports switched off by "
        "settings; containers of one host without common IPC or pid namespace; no network that both "
        "ends have.",
        expected="one transport for every pair",
        quiet=Severity.WARNING,
    )
