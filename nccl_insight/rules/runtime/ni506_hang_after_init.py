"""Init finished on all ranks and the first collective did not.

What it finds
-------------
A watchdog time-out of the very first collective of a process group whose communicator was created.

Why it matters
--------------
Creation works over TCP and the collective does not: the data path (P2P, InfiniBand, GPUDirect) is what
hangs.

How it decides
--------------
The watchdog says that no collective has completed yet (last completed -1 or 0, or sequence 1 timed out),
and the log shows that init completed. A log that merely ends after Init COMPLETE proves nothing, since
NCCL prints nothing while it works.

What to do
----------
Try NCCL_P2P_DISABLE=1, then NCCL_NET_GDR_LEVEL=0, then NCCL_IB_DISABLE=1: the first that helps names the
path. On bare metal disable ACS.

False positives
---------------
A first step that is longer than the watchdog's limit.

References
----------
NVIDIA/nccl issue 1027; NCCL troubleshooting guide, GPU Direct and ACS.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.absent import absences
from nccl_insight.facts.ends import ends
from nccl_insight.facts.errors import causes
from nccl_insight.facts.nvls import one_sided
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._errors import report, trouble
from nccl_insight.rules._faults import ANY, others
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.TRIAGE
CONFIDENCE = Confidence.MEDIUM
NEEDS = ("ranks",)
CAUSED_BY = (*others(ANY, "watchdog-stuck"), "peer-died")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """A watchdog that saw no collective complete, after an init that did."""
    ranks = run.table("ranks")
    if ranks.is_empty() or not bool(ranks["init_complete"].fill_null(False).all()):
        return
    watchdog = trouble(run, "watchdog-timeout")
    first = watchdog.telling("first-operation") if watchdog else None
    if first is not None and (absences(run) or _explained(run)):
        # The rank that did not come, or the failure, is the finding; that nothing completed follows from it.
        return
    if first is None:
        loud = causes(run).filter(pl.col("loud")).height
        if (
            not run.has("connections")
            and not run.has("calls")
            and not loud
            and ranks["destroyed"].cast(pl.String).eq("no").all()
        ):
            yield CannotJudge(
                "the log ends after init: NCCL prints nothing more while it works or hangs",
                "add NCCL_DEBUG_SUBSYS=INIT,ENV,COLL, or the framework's watchdog output",
            )
        return
    yield from report(
        run,
        "watchdog-timeout",
        "Init completed, but the first collective never finished",
        "ncclras; py-spy dump --native --pid <pid>   # where each rank stands; then run on few nodes with one of these "
        "at a time: NCCL_NVLS_ENABLE=0, NCCL_NET_GDR_LEVEL=LOC, NCCL_P2P_DISABLE=1 (the first that helps names "
        "the path)",
        explanation="The ranks found each other, so launch and bootstrap are right. No collective has completed "
        "since: data does not move on one of the paths.",
        rows=first,
    )


def _explained(run: Run) -> bool:
    """Whether the log holds a failure that keeps a collective from completing."""
    rows = causes(run).filter(pl.col("loud") & pl.col("cause").is_in(list(ANY)))
    return rows.height > 0 or bool(ends(run)) or bool(one_sided(run))
