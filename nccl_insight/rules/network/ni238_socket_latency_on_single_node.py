"""A one-node job reports network Socket, which is harmless.

What it finds
-------------
"Using network Socket" in a job whose ranks all share one node.

Why it matters
--------------
It does not: GPU traffic inside a node uses NVLink, PCIe or shared memory. The line is the most common false
alarm in NCCL logs, so it is explained.

How it decides
--------------
All communicators are known to stay on one node, the network is Socket, and no connection uses NET.

What to do
----------
Nothing. A job on several nodes needs a look at its network.

False positives
---------------
None known; the finding is never an alarm.

References
----------
NCCL user guide, troubleshooting.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.networks import socket_processes
from nccl_insight.facts.reach import nodes_are_processes, spans_hosts
from nccl_insight.facts.settings import hosts_of, refs
from nccl_insight.facts.transports import links
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.tables.run import Run

CLASS = "I"
SEVERITY = Severity.INFO
ACTION = Action.NONE
NEEDS = ("processes",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for the run."""
    sockets = socket_processes(run)
    if sockets.is_empty() or spans_hosts(run) is not False or nodes_are_processes(run):
        return
    if links(run).filter(pl.col("transport") == "NET").height:
        return
    yield Hit(
        title="The job runs on one node: network Socket is not used between its GPUs",
        explanation="NCCL always picks a network; inside a node it uses NVLink, PCIe or shared memory.",
        observed="network Socket on one node",
        next_step="nothing to do",
        confidence=Confidence.HIGH,
        hosts=hosts_of(sockets),
        evidence=refs(sockets, 1),
    )
