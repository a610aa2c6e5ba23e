"""Steps became slower from a moment on and stayed so."""

from nccl_insight.base.units import format_ns, rank_words
from nccl_insight.facts.lateness.replay import LATE
from nccl_insight.facts.lateness.steps import Regression, regression
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
        caused_by=("straggler-rank",) if _is_a_straggler(run, found) else (),
        found=found,
        times=times,
        who=who,
    )


def _is_a_straggler(run: Run, found: Regression) -> bool:
    """Whether a rank that is named as late for itself began to be so at this step."""
    return any(set(found.ranks) & set(one.scenario.ranks) for one in mended(run, LATE))
