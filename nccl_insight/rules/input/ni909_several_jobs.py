"""The inputs are not one job.

What it finds
-------------
Logs of several jobs, and profiler traces that state different numbers of ranks or were recorded hours apart.

Why it matters
--------------
Ranks of different jobs must not be compared: rank 1 of one does not wait for rank 0 of the other.

How it decides
--------------
Logs: no communicator has ranks of both, and they differ in size or release of NCCL, are on the same GPUs, or follow
each other in one log while the first completed cleanly. Traces: the number of ranks in their headers
(`distributedInfo.world_size`) and their times, six hours apart or more; traces that state no number belong to the only
job of their time.

What to do
----------
Read the findings by their files: each job is judged by itself. Give one job at a time to see its findings alone.

False positives
---------------
Programs of several independent parts (a trainer and its inference engines): each part is judged by itself. Long
recordings of one job, hours apart: they are then compared each by itself, which loses nothing.

References
----------
Kineto: distributedInfo.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.parts import part_run, parts
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Ref, Severity
from nccl_insight.rules._trace_notes import noted
from nccl_insight.tables.run import Run
from nccl_insight.units import plural

CLASS = "L"
SEVERITY = Severity.INFO
ACTION = Action.NONE
CONFIDENCE = Confidence.HIGH
NEEDS = ("inputs",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding each for logs and for traces, with the first line or trace of each job as evidence."""
    yield from _logs(run)
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
        unit="jobs",
        next_step="give the traces of one job at a time",
        evidence=tuple(
            Ref(i, 0, f"a trace of a job of {'an unknown number of' if w is None else w} ranks")
            for i, w in firsts.select("input_id", "world_size").head(5).iter_rows()
        ),
    )


def _logs(run: Run) -> Iterator[Hit]:
    last = [p for p in parts(run) if p.judged]
    if len(last) < 2:
        return
    sizes = [part_run(run, p).table("communicators")["nranks"].max() for p in last]
    known = [plural(n, "rank") for n in sizes if isinstance(n, int)]
    shown = ", ".join(known[:4]) + (f" and {len(known) - 4} more" if len(known) > 4 else "")
    yield Hit(
        title=f"The inputs hold {len(last)} jobs: {shown}",
        explanation="Each of them is judged by itself, and the verdict is the worst of them.",
        observed=f"{len(last)} jobs",
        unit="jobs",
        next_step="give the logs of one job at a time",
        evidence=tuple(p.begins for p in last if p.begins is not None)[:5],
    )
