"""NCCL takes a lot of GPU memory."""

from nccl_insight.base.model import Ref
from nccl_insight.base.units import format_bytes, plural
from nccl_insight.facts.memory import connection_memory, device_memory, possible_savings
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
        many = f" for {plural(most.communicators, 'communicator')}" if most.communicators else ""
        yield ctx.hit(
            (Ref(most.input_id, most.line),),
            whom=(most.rank, most.host),
            title=f"NCCL allocates {format_bytes(most.bytes)} of GPU memory on {who}{many}",
            explanation=f"{most.words()}. {plural(sum(m.bytes >= limit for m in logged), 'process', 'processes')} of "
            f"{len(logged)} allocate {format_bytes(limit)} or more.",
            observed=format_bytes(most.bytes),
            expected=f"less than {format_bytes(limit)} (a threshold)",
            next_step=step,
        )
        return
    links = connection_memory(run)
    if links is None or links.bytes < limit:
        return
    yield ctx.hit(
        (Ref(links.input_id, links.line),),
        whom=(links.rank,),
        title=f"The P2P connections of rank {links.rank} need about {format_bytes(links.bytes)} of GPU memory",
        explanation=f"{plural(links.receives, 'receiving connection')} and "
        f"{plural(links.sends, 'sending connection')}, of which {links.p2p_receives + links.p2p_sends} are for send, "
        f"receive and all-to-all, times NCCL's buffer sizes.",
        observed=f"about {format_bytes(links.bytes)} by NCCL's formula",
        expected=f"less than {format_bytes(limit)} (a threshold)",
        next_step=f"{step}; NCCL_DEBUG_SUBSYS=INIT,ENV,ALLOC shows every allocation",
    )
