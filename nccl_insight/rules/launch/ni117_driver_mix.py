"""Hosts of one communicator have different CUDA drivers or toolkits.

What it finds
-------------
Processes of a communicator that report another ``cudaDriverVersion``, or an NCCL built for another CUDA release,
than the majority.

Why it matters
--------------
It works in general. But features such as cuMem, NVLS or DMA-BUF come with the driver, so that hosts may choose
different ways, and a host with another driver is often one that missed an update.

How it decides
--------------
The numbers that each process prints against the majority of its communicator, whole hosts first.

What to do
----------
Bring the odd host to the same driver: ``nvidia-smi --query-gpu=driver_version --format=csv,noheader`` on each.

False positives
---------------
Clusters in the middle of a rolling update.

References
----------
CUDA compatibility guide; NCCL source init.cc, cudaDriverVersion.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.facts.members import members, unambiguous
from nccl_insight.facts.outliers import Outlier, outliers
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._diag import drivers_differ
from nccl_insight.rules._outliers import both_sides, subject
from nccl_insight.tables.run import Run
from nccl_insight.units import plural

CLASS = "I"
SEVERITY = Severity.INFO
ACTION = Action.MONITOR
NEEDS = ("processes", "diagnostics")
SPEAKS = True
SOURCES = ("CUDA compatibility guide",)
_FACTS = (("driver_version", "CUDA driver"), ("cuda_version", "CUDA toolkit of NCCL"))


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for each of the two facts, at the largest communicator that shows it."""
    lines = (
        run.table("processes").select("host", "pid", "input_id", "line").unique(["host", "pid"], keep="first")
    )
    ranks = unambiguous(run, members(run)).drop("input_id", "line")
    ranks = ranks.join(lines, on=["host", "pid"], how="left", nulls_equal=True, maintain_order="left")
    for column, words in _FACTS:
        odd = outliers(ranks, column)
        if odd:
            yield _hit(max(odd, key=lambda o: len(o.ranks) + o.majority_ranks), words)
    yield from drivers_differ(run)


def _hit(odd: Outlier, words: str) -> Hit:
    where = subject(odd)
    return Hit(
        title=f"{where}: {words} {odd.value}, while {plural(odd.majority_ranks, 'rank')} of the communicator: "
        f"{odd.majority}",
        explanation="Features that NCCL takes from the driver may differ between these hosts.",
        observed=odd.value,
        expected=odd.majority,
        next_step="nvidia-smi --query-gpu=driver_version --format=csv,noheader   # on every host",
        confidence=Confidence.HIGH,
        ranks=odd.ranks,
        hosts=odd.hosts,
        comm_id=odd.comm_id,
        evidence=both_sides(odd),
    )
