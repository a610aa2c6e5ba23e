"""The traces are not of one job.

What it finds
-------------
Profiler traces that state different numbers of ranks, or that were recorded hours apart.

Why it matters
--------------
Ranks of different jobs must not be compared: rank 1 of one does not wait for rank 0 of the other.

How it decides
--------------
By the number of ranks in the header of each trace (`distributedInfo.world_size`) and by its times, six hours apart or
more. Traces that state no number belong to the only job of their time.

What to do
----------
Give the traces of one job at a time to see its findings alone.

False positives
---------------
Long recordings of one job, hours apart: they are then compared each by itself, which loses nothing.

References
----------
Kineto: distributedInfo.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Ref, Severity
from nccl_insight.rules._trace_notes import noted
from nccl_insight.tables.run import Run

CLASS = "L"
SEVERITY = Severity.INFO
ACTION = Action.NONE
CONFIDENCE = Confidence.HIGH
NEEDS = ("inputs",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding, with the first trace of each job as evidence."""
    texts, _ = noted(run, "several-jobs")
    if not texts:
        return
    info = run.table("trace_info")
    firsts = (
        info.filter(pl.col("job").is_not_null())
        .sort("job", "input_id")
        .unique("job", keep="first", maintain_order=True)
    )
    yield Hit(
        title=f"The inputs are not one job: {texts[0]}",
        explanation="Collectives are matched and ranks compared only within a job.",
        observed=f"{firsts.height} jobs",
        expected="the traces of one job",
        unit="jobs",
        next_step="give the traces of one job at a time",
        evidence=tuple(
            Ref(i, 0, f"a trace of a job of {'an unknown number of' if w is None else w} ranks")
            for i, w in firsts.select("input_id", "world_size").head(5).iter_rows()
        ),
    )
