"""A stray connection broke NCCL's bootstrap.

What it finds
-------------
A bootstrap socket that was closed before its greeting was read, or that greeted with another magic
number.

Why it matters
--------------
Versions before 2.27.3 abort init when something else connects to their port, for instance a port scanner
or another job.

How it decides
--------------
A closed connection whose trace goes through the code that accepts connections (four frames of socket.cc
before bootstrap.cc), or the message about a wrong magic number. The same in later versions is reported at
level INFO and handled.

What to do
----------
Update NCCL to 2.27.3 or later, or keep scanners away from the ephemeral ports of the compute network;
check that no second job uses the same NCCL_COMM_ID.

False positives
---------------
A peer that dies in exactly that moment.

References
----------
NVIDIA/nccl release notes 2.27.3; src/misc/socket.cc (socketFinalizeAccept).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.errors import causes
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._closed import accepting
from nccl_insight.rules._errors import Trouble, report, trouble
from nccl_insight.rules._faults import STARTUP
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.CONFIG
CONFIDENCE = Confidence.MEDIUM
NEEDS = ("errors",)
CAUSED_BY = STARTUP


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """Wrong magic numbers and connections closed while being accepted."""
    stated = trouble(run, "bootstrap-connection-closed")
    closed = causes(run).join(accepting(run), on=["input_id", "line"], how="semi")
    parts = [
        frame for frame in (stated.rows if stated else None, closed) if frame is not None and frame.height
    ]
    if not parts:
        return
    yield from report(
        run,
        "bootstrap-connection-closed",
        "A stray connection to the bootstrap port broke NCCL's init",
        "ss -tnp | grep <port>; then update NCCL to 2.27.3 or later   # ask who scans ports on this network",
        explanation="Something connected to the port where NCCL waits for its ranks and went away without NCCL's "
        "greeting. Before 2.27.3 that "
        "ends init; newer versions ignore it.",
        rows=Trouble(pl.concat(parts).sort("input_id", "line")),
    )
