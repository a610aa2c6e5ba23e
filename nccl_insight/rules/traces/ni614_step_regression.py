"""Steps became slower from a moment on and stayed so."""

from nccl_insight.base.units import format_ns, rank_words
from nccl_insight.facts.replay import LATE
from nccl_insight.facts.steps import Regression, regression
from nccl_insight.rules._gains import mended
from nccl_insight.rules._traces import input_of_rank, trace_refs, with_hosts
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """One finding for the run."""
    run = ctx.run
    found = regression(run, ctx["ratio"])
    if found is None:
        return
    who = rank_words(found.ranks)
    times = f"{format_ns(found.before_ns)} before, {format_ns(found.after_ns)} after"
    inputs = input_of_rank(run)
    yield ctx.says(
        "found",
        trace_refs([(inputs.get(found.ranks[0] if found.ranks else 0), f"step {found.step}: {times}")]),
        whom=with_hosts(run, found.ranks),
        explanation=_explanation(found, who),
        next_step=_next_step(found),
        caused_by=("straggler-rank",) if _is_a_straggler(run, found) else (),
        found=found,
        times=times,
        who=who,
    )


def _is_a_straggler(run: Run, found: Regression) -> bool:
    """Whether a rank that is named as late for itself began to be so at this step."""
    return any(set(found.ranks) & set(one.gain.scenario.ranks) for one in mended(run, LATE))


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
