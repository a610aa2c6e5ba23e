"""NCCL could not build the topology of the machine.

What it finds
-------------
Missing attributes, unknown nodes, paths without reverse, versions that do not fit, in a topology read
from /sys or from a file.

Why it matters
--------------
Init fails, or the search works on a wrong picture of the machine.

How it decides
--------------
The messages of the XML and topology code decide.

What to do
----------
Unset NCCL_TOPO_FILE and NCCL_GRAPH_FILE, or write a new one with NCCL_TOPO_DUMP_FILE; if the machine's
own /sys is odd (USB NICs, virtual bridges), update NCCL.

False positives
---------------
None known.

References
----------
NVIDIA/nccl issue 1125; NCCL user guide, NCCL_TOPO_FILE.
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
CAUSED_BY = ("topo-pci-path-missing", "topo-file-missing")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "topo-xml-invalid",
        "The topology of the machine could not be built",
        "unset NCCL_TOPO_FILE NCCL_GRAPH_FILE; NCCL_TOPO_DUMP_FILE=/tmp/topo.xml <the same "
        "job>   # then compare /tmp/topo.xml of a good host",
        explanation="The message names the node or attribute that is missing. A file made on another machine "
        "or for another NCCL, a NIC without PCI parent (USB, virtual) and an incomplete virtual "
        "PCI tree are the usual reasons.",
        expected="every GPU and NIC has a place in the topology",
    )
