"""Steps became slower from a moment on and stayed so.

What it finds
-------------
A step from which all further steps of the recording take longer, and whether the computing of some ranks, the
computing of all, or communication grew.

Why it matters
--------------
A job that was fast and became slow has met something new: a throttled GPU, a link at a lower rate, a neighbor on
the network, a cache that filled up. Averages over the whole run hide it.

How it decides
--------------
The steps (median over ranks) are cut where the two parts spread least. At least five steps stand on each side, the
later ones take 15% longer by their medians, and the order of the two parts is no chance (Mann-Whitney test; a jump of
five times the spread needs fewer steps). A rank is named where its own computing grew by half of the step's growth and
that of the others did not.

What to do
----------
Look at clocks, temperatures and link errors of the named ranks at that time; where communication grew on all
ranks, look at links and at other jobs on the network.

False positives
---------------
Inputs that become larger on purpose (a curriculum, longer sequences), and a change of the profiler's own schedule.

References
----------
Mann and Whitney 1947, On a Test of Whether one of Two Random Variables is Stochastically Larger than the Other.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.facts.steps import Regression, regression
from nccl_insight.facts.straggler import arrivals
from nccl_insight.facts.thresholds import threshold
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._gains import LATE, mended, replayed
from nccl_insight.rules._traces import hosts_of, input_of_rank, trace_refs
from nccl_insight.tables.run import Run
from nccl_insight.units import format_ns, plural, rank_words

CLASS = "P"
SEVERITY = Severity.WARNING
ACTION = Action.TRIAGE
CONFIDENCE = Confidence.MEDIUM
NEEDS = ("steps",)
THRESHOLDS = {"ratio": 1.15}
SOURCES = ("Mann-Whitney test",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for the run."""
    found = regression(run, threshold(run, "step-regression", "ratio", THRESHOLDS["ratio"]))
    if found is None:
        return
    who = rank_words(found.ranks)
    times = f"{format_ns(found.before_ns)} before, {format_ns(found.after_ns)} after"
    inputs = input_of_rank(run)
    yield Hit(
        title=f"Steps are slower from step {found.step} on: {times}"
        + (f"; the computing of {who} grew" if found.ranks else ""),
        explanation=_explanation(found, who),
        observed=f"{found.ratio:.2f} times the time, in {plural(found.after, 'step')}",
        expected=f"{format_ns(found.before_ns)} as in the {plural(found.before, 'step')} before",
        next_step=_next_step(found),
        caused_by=("straggler-rank",) if _is_a_straggler(run, found) else (),
        ranks=found.ranks,
        hosts=hosts_of(run, found.ranks),
        evidence=trace_refs(
            [(inputs.get(found.ranks[0] if found.ranks else 0), f"step {found.step}: {times}")]
        ),
    )


def _is_a_straggler(run: Run, found: Regression) -> bool:
    """Whether a rank that is named as late for itself began to be so at this step."""
    if replayed(run):
        return any(set(found.ranks) & set(one.gain.scenario.ranks) for one in mended(run, LATE))
    late = arrivals(run)
    return late is not None and any(
        set(s.ranks) == set(found.ranks) or (s.steps and min(s.steps) >= found.step) for s in late.stragglers
    )


def _explanation(found: Regression, who: str) -> str:
    return {
        "ranks": f"The computing of {who} grew, that of the others did not.",
        "compute": "Computing grew on all ranks alike.",
        "communication": "Communication that nothing hides grew on all ranks; their computing did not.",
        "idle": "The GPUs wait longer for the host.",
        "unknown": "No single kind of time explains it.",
    }[found.where]


def _next_step(found: Regression) -> str:
    if found.where == "ranks":
        return "nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE   (on the hosts of these ranks, while the job is slow)"
    if found.where == "communication":
        return "nccl-insight watch, or link counters of the hosts (rdma statistic show) from that time on"
    return "compare a step before and a step after in the trace: input sizes, recompilation, data loading"
