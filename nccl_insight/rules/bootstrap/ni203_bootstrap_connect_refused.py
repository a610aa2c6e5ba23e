"""A TCP connection to a peer was refused or aborted.

What it finds
-------------
Failed connects of the bootstrap or of the socket network with Connection refused, connection abort, no
route to host or network unreachable.

Why it matters
--------------
The ranks cannot find each other; init ends with ncclSystemError or ncclRemoteError.

How it decides
--------------
A loud connect failure of that kind. Retries at level INFO are normal while peers start, and are information; a
warning where a process tried several times and no init of it came to an end.

What to do
----------
Refused means that nothing listens there: look at the rank on that host first, it probably stopped. No
route or unreachable means the interface or a firewall: check NCCL_SOCKET_IFNAME and the port range.

False positives
---------------
A peer that was only slow to start; then the retries end and init completes.

References
----------
NCCL troubleshooting guide, networking; NVIDIA/nccl issue 1000.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import Trouble, report, trouble
from nccl_insight.rules._faults import ANY, others
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.TRIAGE
NEEDS = ("errors",)
SPEAKS = True
_OFTEN = 4
CAUSED_BY = others(ANY, "bootstrap-connect-refused", "bootstrap-connect-timeout")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    found = trouble(run, "bootstrap-connect-refused")
    if found is None:
        return
    unreachable = found.telling("no-route")
    yield from report(
        run,
        "bootstrap-connect-refused",
        "A peer's address cannot be reached: no route to it"
        if unreachable is not None and unreachable.count == found.count
        else "A connection to a peer was refused",
        "nc -vz <address> <port>; ip -brief address   # while the job runs, and ss -ltnp on the peer; "
        "then read what the peer logged before",
        explanation="Candidates in this order: the process behind that address has already stopped (look for "
        "its first error); the address belongs to a bridge or virtual interface that others "
        "cannot reach (NCCL_SOCKET_IFNAME); a firewall rejects the port.",
        rows=found,
        quiet=Severity.WARNING if _in_vain(run, found) else Severity.INFO,
    )


def _in_vain(run: Run, found: Trouble) -> bool:
    """Whether a process tried again and again and the log knows of no init that it finished."""
    tries = found.rows.group_by("host", "pid").agg(pl.col("repeats").fill_null(1).sum().alias("n"))
    often = tries.filter(pl.col("n") >= _OFTEN)
    done = run.table("ranks").filter(pl.col("init_complete")).select("host", "pid").unique()
    return often.join(done, on=["host", "pid"], how="anti").height > 0
