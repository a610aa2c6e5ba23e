"""Some ranks stopped before a collective that the others issued.

What it finds
-------------
Call logs in which ranks of a communicator issued fewer collectives than their peers.

Why it matters
--------------
The others wait for them. It is the usual cause of a hang, and these are the ranks to look at.

How it decides
--------------
Calls are counted by order within each rank and communicator, only where init is in the log, every rank
that it holds printed calls, the communicator was not destroyed, and the ranks that are ahead agree on
where they stopped. Otherwise, or when the log is known to be cut, nothing is concluded.

What to do
----------
Look at the named ranks at that point of the program: an exception, a branch, a data loader that ran dry;
py-spy dump shows where they are.

False positives
---------------
A log that ends while the job runs: ranks are then a few calls apart, without a pattern.

References
----------
NVIDIA/nccl issues 857, 719 and 1324.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.calls import collective_calls, judgeable, log_is_cut, progress
from nccl_insight.facts.settings import hosts_of, named, ranks_of, refs
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._faults import DEVICE, MEMORY
from nccl_insight.tables.run import Run
from nccl_insight.units import format_ranks

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.TRIAGE
CONFIDENCE = Confidence.MEDIUM
NEEDS = ("calls",)
CAUSED_BY = (*DEVICE, *MEMORY, "collective-mismatch", "invalid-argument", "algorithm-unavailable")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding a communicator with ranks behind."""
    if log_is_cut(run):
        yield CannotJudge(
            "lines are missing from the log, so calls cannot be counted",
            "keep one complete log a rank: NCCL_DEBUG_FILE=nccl.%h.%p",
        )
        return
    ended = (
        run.table("ranks")
        .filter(pl.col("destroyed").cast(pl.String) == "destroyed")
        .select("comm_id")
        .unique()
    )
    counts = (
        progress(run).join(judgeable(run), on="comm_id", how="semi").join(ended, on="comm_id", how="anti")
    )
    spread = counts.group_by("comm_id").agg(
        pl.col("calls").max().alias("most"),
        pl.col("calls").min().alias("least"),
        pl.col("calls").mode().max().alias("herd"),
    )
    for comm_id, most, _, herd in (
        spread.filter(pl.col("most") > pl.col("least")).sort("comm_id").head(5).iter_rows()
    ):
        here = counts.filter(pl.col("comm_id") == comm_id)
        ahead = here.filter(pl.col("calls") == most).height
        if here.height > 2 and (herd != most or ahead * 2 <= here.height):
            yield CannotJudge(
                "ranks of a communicator are at many different calls, as in a log cut while the job ran",
                "analyse the log after the job has ended",
            )
            continue
        behind = here.filter(pl.col("calls") < most)
        reached = min(behind["calls"].to_list())
        missed = collective_calls(run).filter((pl.col("comm_id") == comm_id) & (pl.col("nth") == reached))
        op = missed["op"][0] if missed.height else "collective"
        who = format_ranks(behind["rank"])
        yield Hit(
            title=f"Rank {who} stopped after {reached} collectives; {here.height - behind.height} ranks went on to "
            f"{most} ({named(hosts_of(behind)) or 'host unknown'})",
            next_step=f"py-spy dump --pid <pid of rank {behind['rank'][0]}>; look at what that rank printed last",
            explanation=f"The next collective of this communicator, {op} number {reached + 1}, was issued by the other "
            "ranks and never by these. The others wait for them.",
            observed=f"{reached} calls",
            expected=f"{most} calls",
            unit="calls",
            ranks=ranks_of(behind),
            hosts=hosts_of(behind),
            comm_id=str(comm_id),
            evidence=(*refs(behind, 2), *refs(missed, 1)),
            absence=f"no further call of rank {who} on this communicator",
        )
