"""Communicators are created again and again and never destroyed.

What it finds
-------------
Processes that create many communicators over the same ranks without destroying any.

Why it matters
--------------
Each communicator keeps GPU memory, sockets and queue pairs; at some point memory, file descriptors or
device limits run out.

How it decides
--------------
At least 64 communicators (threshold `communicators`) that one process created with the same number of
ranks and its own rank the same in all, under printed commIds, none of them destroyed in the log.

What to do
----------
Create process groups once and keep them; call destroy_process_group or ncclCommDestroy for those that are
no longer needed.

False positives
---------------
Frameworks with very many process groups of equal size on purpose; raise the threshold for those.

References
----------
NCCL user guide, ncclCommDestroy; PyTorch documentation, new_group.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.memory import device_memory
from nccl_insight.facts.settings import hosts_of, ranks_of, refs
from nccl_insight.facts.thresholds import threshold
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.tables.run import Run
from nccl_insight.units import format_bytes, plural

CLASS = "P"
SEVERITY = Severity.WARNING
ACTION = Action.CONFIG
CONFIDENCE = Confidence.MEDIUM
NEEDS = ("ranks",)
THRESHOLDS = {"communicators": 64.0}


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all processes."""
    limit = threshold(run, "communicator-leak", "communicators", THRESHOLDS["communicators"])
    known = run.table("communicators").filter(~pl.col("comm_id_made").fill_null(True))
    # A number for each set of hosts: grouping by their names would copy all names for every rank.
    members = known.select("comm_id", pl.col("hosts").list.sort().list.join(",").rank("dense").alias("where"))
    ranks = run.table("ranks").filter(pl.col("nranks") > 1).join(members, on="comm_id", how="inner")
    if (ranks["destroyed"].cast(pl.String) == "destroyed").any():
        ranks = ranks.filter(
            (pl.col("destroyed").cast(pl.String).fill_null("no") == "no")
            .all()
            .over("host", "pid", "nranks", "rank")
        )
    many = (
        ranks.group_by("host", "pid", "rank", "nranks", "where", maintain_order=True)
        .agg(pl.col("comm_id").n_unique().alias("made"), pl.col("input_id", "line").last())
        .filter(pl.col("made") >= limit)
    )
    if many.is_empty():
        return
    most = int(many["made"].max())  # type: ignore[arg-type]
    yield Hit(
        title=f"{plural(many.height, 'process', 'processes')} created up to {most} communicators over the same "
        f"ranks and destroyed none",
        next_step="grep -c 'Init COMPLETE' <log>; look for new_group or ncclCommInitRank inside a loop "
        "of the program",
        explanation="The communicators have the same size and the same own rank, so they probably have the same "
        "members. Each keeps memory and "
        f"connections until it is destroyed.{_bytes(run)}",
        observed=f"{most} communicators",
        unit="communicators",
        ranks=ranks_of(many),
        hosts=hosts_of(many),
        evidence=refs(many),
        absence="no destroyed communicator of these processes",
    )


def _bytes(run: Run) -> str:
    """What the log says about their memory; empty without ALLOC lines."""
    most = next((m for m in device_memory(run) if m.communicators > 1), None)
    if most is None:
        return ""
    each = format_bytes(most.bytes / most.communicators)
    return (
        f" One process allocated {format_bytes(most.bytes)} of GPU memory for {most.communicators} communicators, "
        f"{each} each."
    )
