"""NCCL takes a lot of GPU memory."""

from nccl_insight.base.model import Ref
from nccl_insight.base.units import format_bytes
from nccl_insight.facts.setup.memory import connection_memory, device_memory, possible_savings
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding, for the process that takes most."""
    run = ctx.run
    limit = ctx["bytes"]
    best = possible_savings(run)
    step = "; ".join(f"{s.setting} saves about {format_bytes(s.saved_bytes)} ({s.cost})" for s in best[:2])
    step = step or "destroy communicators that are no longer needed; ncclCommSplit with splitShare=1"
    logged = device_memory(run)
    if logged:
        if logged[0].bytes < limit:
            return
        most = logged[0]
        who = "a process" if most.rank is None else f"rank {most.rank}"
        yield ctx.says(
            "found-nccl-allocates",
            (Ref(most.input_id, most.line),),
            whom=(most.rank, most.host),
            next_step=step,
            most=most,
            who=who,
            words=most.words(),
            high=sum(m.bytes >= limit for m in logged),
            logged=logged,
        )
        return
    links = connection_memory(run)
    if links is None or links.bytes < limit:
        return
    yield ctx.says(
        "found",
        (Ref(links.input_id, links.line),),
        whom=(links.rank,),
        links=links,
        p2p_links=links.p2p_receives + links.p2p_sends,
        step=step,
    )
