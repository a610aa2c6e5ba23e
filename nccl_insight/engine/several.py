"""What the inputs hold beside one attempt of one job, and one verdict on all of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from nccl_insight.base.model import FindingClass, JobPart, NotJudged, Severity
from nccl_insight.engine.causes import left_port
from nccl_insight.engine.draft import Draft
from nccl_insight.engine.evidence import paths_of
from nccl_insight.engine.journey import progress, trouble_line
from nccl_insight.engine.summary import job_of
from nccl_insight.facts.who.parts import Part, part_run, parts
from nccl_insight.tables.run import Run

# Rules on all inputs together; the others see one job at a time.
WHOLE: Final = ("several-jobs", "several-attempts")


# Earlier attempts that are judged, the latest first.
_MOST_ATTEMPTS: Final = 8


def earlier_causes(run: Run, judge: Callable[[Run], Sequence[Draft]]) -> dict[Part, Draft | None]:
    """The first cause of each earlier attempt of a job, judged like the last one; None where nothing failed."""
    found = [part for part in parts(run) if not part.judged]
    return {part: _first_cause(judge(part_run(run, part))) for part in found[-_MOST_ATTEMPTS:]}


def _first_cause(placed: Sequence[Draft]) -> Draft | None:
    loud = [d for d in placed if d.severity in (Severity.ERROR, Severity.WARNING)]
    return min(
        (d for d in loud if d.rule.finding_class is not FindingClass.INFORMATION), key=lambda d: d.order, default=None
    )


def with_causes(draft: Draft, run: Run, causes: Mapping[Part, Draft | None], last: Sequence[Draft]) -> Draft:
    """The finding about several attempts of a job, with what each of them ended with."""
    if draft.name != "several-attempts" or not causes:
        return draft
    final = _first_cause(last)
    ended = [*causes.values(), final]
    failed = [d for d in ended if d is not None]
    if not failed:
        return draft
    alike = [d for d in failed if _alike(d, failed[-1])]
    if final is None:
        same = f" of the same cause ({failed[-1].name})" if len(alike) == len(failed) > 1 else ""
        said = f"{len(failed)} failed{same}, the last one did not"
    elif ended[-2] is not None and left_port(ended[-2], final):
        said = "the last one failed at the port that the one before it left"
    elif len(alike) > 1:
        said = f"the same cause in {len(alike)} of {len(ended)} attempts"
    else:
        said = "each for another cause" if len(failed) == len(ended) else f"{len(failed)} of {len(ended)} failed"
    each = [
        f"Attempt {part.attempt}: {cause.hit.title if cause is not None else 'nothing failed in it'}."
        for part, cause in causes.items()
    ]
    again = " Starting it once more does not help while the cause is there." if len(alike) > 1 and final else ""
    hit = replace(draft.hit, title=f"{draft.hit.title.partition(':')[0]}: {said}", explanation=" ".join(each) + again)
    return replace(draft, hit=hit)


def _alike(one: Draft, other: Draft) -> bool:
    """Whether two attempts ended of the same: the same diagnosis, on a host or rank that both name if both name any."""
    if one.name != other.name:
        return False
    pairs = ((one.hit.ranks, other.hit.ranks), (one.hit.hosts, other.hit.hosts))
    return not all(set(a) and set(b) and set(a).isdisjoint(b) for a, b in pairs)


def job_parts(run: Run, causes: Mapping[Part, Draft | None]) -> tuple[JobPart, ...]:
    """Each job and attempt; none where the inputs are one attempt of one job."""
    found = parts(run)
    if len(found) < 2:
        return tuple(_traced(run))
    return tuple(_job_part(run, part, found, causes.get(part)) for part in found)


def _job_part(run: Run, part: Part, found: Sequence[Part], cause: Draft | None) -> JobPart:
    own = part_run(run, part)
    job, seen, paths = job_of(own), progress(own), paths_of(run)
    reached = seen.line if seen is not None else ""
    if not part.judged:
        said = cause.hit.title if cause is not None else trouble_line(own)
        reached = "; ".join(filter(None, (reached, said)))
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
    jobs = info.drop_nulls("job").group_by("job").agg(pl.col("input_id").unique().sort(), pl.col("world_size").max())
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
