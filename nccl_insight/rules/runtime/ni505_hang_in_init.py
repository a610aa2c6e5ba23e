"""Init started on all ranks and never finished."""

from nccl_insight.facts.said.unread import unread
from nccl_insight.facts.setup.settings import hosts_of
from nccl_insight.rules._init import waiting, waiting_early
from nccl_insight.rules.context import Context, Hits

# What a firewall or a proxy of the pod keeps from the pod's own address passes on the loopback interface.


def check(ctx: Context) -> Hits:
    """One finding per communicator whose ranks are all there and stuck."""
    run = ctx.run
    for stuck in waiting(run):
        if stuck.missing:
            continue
        if stuck.doubt:
            yield ctx.cannot("untold-start", stuck=stuck)
            continue
        yield ctx.says("found", stuck.ranks, comm_id=stuck.comm_id, stuck=stuck)
    said = ctx.lines()
    if said is not None and not any(stuck for stuck in waiting(run)):
        yield from ctx.tells("found-nccl-did", rows=said)
    early = waiting_early(run)
    if early.height and any(u.about == "init" for u in unread(run)):
        yield ctx.cannot("untold")
    elif early.height:
        yield ctx.says(
            "found-chose-network",
            early,
            whom=hosts_of(early),
            early=early,
            several=early.height > 1,
            one_host=early["host"].n_unique() == 1,
        )
