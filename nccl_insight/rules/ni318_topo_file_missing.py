"""A topology or graph file that was asked for cannot be read.

What it finds
-------------
NCCL_TOPO_FILE or NCCL_GRAPH_FILE naming a file that does not open.

Why it matters
--------------
NCCL goes on with what it detects; in virtual machines that is often much slower.

How it decides
--------------
The message decides.

What to do
----------
Mount the file into the container at the path that the variable names, on every host.

False positives
---------------
The default path of a file that is optional, without the variable being set.

References
----------
NCCL user guide, NCCL_TOPO_FILE and NCCL_GRAPH_FILE.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report
from nccl_insight.run import Run

CLASS = "P"
SEVERITY = Severity.WARNING
ACTION = Action.CONFIG
NEEDS = ("errors",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "topo-file-missing",
        "The requested topology file cannot be read",
        'echo "$NCCL_TOPO_FILE $NCCL_GRAPH_FILE"; ls -l "$NCCL_TOPO_FILE"   # inside the '
        "container, on each host named",
        explanation="NCCL was told to read a file that is not there or not readable, and uses its own "
        "detection instead.",
        expected="a readable file on every host",
    )
