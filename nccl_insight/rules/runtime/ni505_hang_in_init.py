"""Init started on all ranks and never finished."""

from nccl_insight.facts.settings import hosts_of, ranks_of, refs
from nccl_insight.facts.unread import unread
from nccl_insight.rules._init import waiting, waiting_early
from nccl_insight.rules.context import Context, Hits

# What a firewall or a proxy of the pod keeps from the pod's own address passes on the loopback interface.
_ONE_HOST = (
    "NCCL_SOCKET_IFNAME=lo <the same job>   # if it then runs, the ranks cannot reach this host's own address: a "
    'firewall, or the proxy of a service mesh (sidecar.istio.io/inject: "false"); '
)


def check(ctx: Context) -> Hits:
    """One finding per communicator whose ranks are all there and stuck."""
    run = ctx.run
    for stuck in waiting(run):
        if stuck.missing:
            continue
        if stuck.doubt:
            yield ctx.cannot("untold-start", stuck=stuck)
            continue
        yield ctx.says(
            "found",
            refs(stuck.ranks),
            whom=(*ranks_of(stuck.ranks), *hosts_of(stuck.ranks)),
            comm_id=stuck.comm_id,
            absence="no Init COMPLETE of this communicator in any input",
            stuck=stuck,
        )
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
            absence="no line about ranks, rings or communicators in any input",
            early=early,
            n_unique=_ONE_HOST if early["host"].n_unique() == 1 else "",
            several=early.height > 1,
        )
