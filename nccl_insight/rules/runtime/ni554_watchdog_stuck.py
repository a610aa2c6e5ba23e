"""torch's watchdog thread itself hangs.

What it finds
-------------
The heartbeat monitor of ProcessGroupNCCL reporting that the watchdog made no progress.

Why it matters
--------------
It is not a time-out of a collective: a call into CUDA or NCCL, or Python's lock, blocks the thread that watches
collectives. Raising a collective's time limit does not help.

How it decides
--------------
The message decides. Where a collective timed out as well, on this or another rank, that came first and this is its
effect.

What to do
----------
Look where the process stands: py-spy dump --native, gdb. A hanging CUDA driver shows as Xid in dmesg.

False positives
---------------
Long teardown of a finished job; long calls that hold Python's lock (compilation, checkpoints): raise
TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC.

References
----------
PyTorch ProcessGroupNCCL (heartbeat monitor); TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.facts.identity import identities
from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report, trouble
from nccl_insight.rules._faults import ANY, others
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.TRIAGE
NEEDS = ("errors",)
_ENDS = ("watchdog_hang_end", "watchdog_heartbeat")
CAUSED_BY = (*others(ANY, "watchdog-stuck"), "watchdog-timeout", "rank-desync", "collective-stalled")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    found = trouble(run, "watchdog-stuck")
    if found is None:
        return
    numbers = found.rows["launcher_rank"].fill_null(found.rows["rank"]).drop_nulls().unique().sort()
    ranks = tuple(int(n) for n in numbers)
    known = identities(run)
    hosts = tuple(sorted({known.host_of_rank[r] for r in ranks if r in known.host_of_rank}))
    seconds = found.rows["stuck_s"].drop_nulls()
    span = f" for {int(seconds[0]):,} s" if seconds.len() else ""
    yield from report(
        run,
        "watchdog-stuck",
        f"torch's watchdog thread made no progress{span}",
        "py-spy dump --native --pid <pid>; dmesg -T | grep -i xid; "
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=1800 if the "
        "process was only busy",
        explanation="A call into CUDA or NCCL, or Python's lock, holds the thread that watches collectives. No "
        "collective was "
        "found to have timed out by this message.",
        rows=found,
        # Without the line that ends the process the monitor only warned.
        severity=None if found.rows["message"].is_in(list(_ENDS)).any() else Severity.WARNING,
        ranks=ranks,
        hosts=hosts,
    )
