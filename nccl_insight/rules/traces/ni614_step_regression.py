"""Steps became slower from a moment on and stayed so."""

from nccl_insight.base.units import format_ns
from nccl_insight.facts.lateness.replay import LATE
from nccl_insight.facts.lateness.steps import regression
from nccl_insight.rules._gains import mended
from nccl_insight.rules._traces import input_of_rank, trace_refs, with_hosts
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for the run."""
    run = ctx.run
    found = regression(run, ctx["ratio"])
    if found is None:
        return
    times = f"{format_ns(found.before_ns)} before, {format_ns(found.after_ns)} after"
    inputs = input_of_rank(run)
    # A rank that is named as late for itself began to be so at this step.
    late = {rank for one in mended(run, LATE) for rank in one.scenario.ranks}
    yield ctx.says(
        "found",
        trace_refs([(inputs.get(found.ranks[0] if found.ranks else 0), f"step {found.step}: {times}")]),
        whom=with_hosts(run, found.ranks),
        caused_by=("straggler-rank",) if late & set(found.ranks) else (),
        found=found,
        times=times,
    )
