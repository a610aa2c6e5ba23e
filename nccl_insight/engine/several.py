"""What the inputs hold beside one attempt of one job, and one verdict on all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from nccl_insight.engine.draft import Draft
from nccl_insight.engine.evidence import paths_of
from nccl_insight.engine.summary import job_of
from nccl_insight.facts.journey import progress, trouble_line
from nccl_insight.facts.parts import Part, part_run, parts
from nccl_insight.model import JobPart, NotJudged, Severity
from nccl_insight.tables.run import Run

# Rules on all inputs together; the others see one job at a time.
WHOLE: Final = ("several-jobs", "several-attempts")


def job_parts(run: Run) -> tuple[JobPart, ...]:
    """Each job and attempt; none where the inputs are one attempt of one job."""
    found = parts(run)
    return tuple(_job_part(run, part, found) for part in found) if len(found) > 1 else tuple(_traced(run))


def _job_part(run: Run, part: Part, found: Sequence[Part]) -> JobPart:
    own = part_run(run, part)
    job, seen, paths = job_of(own), progress(own), paths_of(run)
    reached = seen.line if seen is not None else ""
    if not part.judged:
        reached = "; ".join(filter(None, (reached, trouble_line(own))))
    names = [paths.get(s.input_id, f"input {s.input_id}") for s in part.spans]
    return JobPart(part_label(part, found), tuple(names), job.nranks, job.nccl_versions, part.judged, reached)


def part_label(part: Part, found: Sequence[Part]) -> str:
    """``job 2``, ``attempt 1 of 3``, ``job 2, attempt 1 of 3``."""
    attempts = sum(p.job == part.job for p in found)
    words = [f"job {part.job}"] if any(p.job != part.job for p in found) else []
    words += [f"attempt {part.attempt} of {attempts}"] if attempts > 1 else []
    return ", ".join(words)


def _traced(run: Run) -> Iterator[JobPart]:
    """The jobs that the headers of profiler traces tell apart."""
    info = run.table("trace_info")
    if info["job"].drop_nulls().n_unique() < 2:
        return
    paths = paths_of(run)
    jobs = (
        info.drop_nulls("job")
        .group_by("job")
        .agg(pl.col("input_id").unique().sort(), pl.col("world_size").max())
    )
    for job, inputs, size in jobs.sort("job").select("job", "input_id", "world_size").iter_rows():
        names = tuple(paths.get(i, f"input {i}") for i in inputs)
        yield JobPart(f"job {job}", names, size, (), True)


def merged_status(states: Sequence[tuple[str, tuple[str, ...]]]) -> tuple[str, tuple[str, ...]]:
    """One status for all jobs: the one that needs most attention, with its reasons."""
    order = ("findings", "inconclusive", "not_judged", "ok")
    return min(states, key=lambda state: order.index(state[0]))


def unjudged(gaps: Sequence[Sequence[NotJudged]]) -> list[NotJudged]:
    """What could not be judged in any of the jobs."""
    common = set.intersection(*({g.name for g in own} for own in gaps)) if gaps else set()
    return [g for g in dict.fromkeys(g for own in gaps for g in own) if g.name in common]


def once(placed: Sequence[Draft]) -> list[Draft]:
    """The findings of all jobs in the order of the report; what is worth knowing only, and alike, is said once."""
    found: dict[tuple[str, str, int], Draft] = {}
    for n, draft in enumerate(sorted(placed, key=lambda d: d.order)):
        alike = draft.severity is Severity.INFO
        found.setdefault((draft.name, draft.hit.title, 0 if alike else n + 1), draft)
    return list(found.values())
