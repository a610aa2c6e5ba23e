"""Init started on all ranks and never finished."""

from nccl_insight.base.model import CannotJudge, Severity
from nccl_insight.base.units import plural
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
            yield CannotJudge(
                stuck.doubt, "keep the whole log of all ranks until the job is killed: NCCL_DEBUG_FILE=nccl.%h.%p"
            )
            continue
        yield ctx.hit(
            refs(stuck.ranks),
            whom=(*ranks_of(stuck.ranks), *hosts_of(stuck.ranks)),
            title=f"Init of a communicator of {plural(stuck.nranks, 'rank')} started on all and finished on none",
            next_step="py-spy dump --pid <pid>   # while it hangs; then find the transport that hangs: run "
            "with NCCL_P2P_DISABLE=1, then with NCCL_IB_DISABLE=1",
            explanation="All ranks said that they start, none that it is done, and nothing of them follows. "
            + stuck.reached,
            observed=f"0 of {stuck.nranks} ranks finished",
            expected=f"{stuck.nranks} times Init COMPLETE",
            comm_id=stuck.comm_id,
            absence="no Init COMPLETE of this communicator in any input",
        )
    said = ctx.lines()
    if said is not None and not any(stuck for stuck in waiting(run)):
        yield from ctx.report(
            "NCCL did not become ready within the time limit of a nonblocking call",
            next_step="py-spy dump --native --pid <pid>   # on every rank, while it waits: the one that stands "
            "elsewhere did not come; a slow start of many ranks: raise TORCH_NCCL_NONBLOCKING_TIMEOUT",
            explanation="torch asked NCCL to create or finish a communicator without blocking, and it was not done in "
            "time: a rank did not come, or its connections were not made.",
            rows=said,
        )
    early = waiting_early(run)
    if early.height and any(u.about == "init" for u in unread(run)):
        yield CannotJudge(
            "lines about init are worded in a way that is not known here, so a communicator may have been created",
            "nccl-insight explain-log <log>   # shows the lines that no rule reads",
        )
    elif early.height:
        yield ctx.hit(
            early,
            whom=hosts_of(early),
            title=f"{plural(early.height, 'process', 'processes')} chose a network and then waited: no communicator "
            "was created",
            next_step=(_ONE_HOST if early["host"].n_unique() == 1 else "")
            + "py-spy dump --pid <pid>   # while it hangs; then check that all ranks were launched and that "
            "WORLD_SIZE and MASTER_ADDR agree",
            explanation="Each process got as far as the bootstrap, where it waits for all ranks to check in. A "
            "rank that never "
            "arrived, or cannot reach the root, keeps all of them there. This version prints ranks only afterwards.",
            severity=None if early.height > 1 else Severity.WARNING,
            observed=f"{plural(early.height, 'process', 'processes')} in the bootstrap, 0 ranks",
            absence="no line about ranks, rings or communicators in any input",
        )
