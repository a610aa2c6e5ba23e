"""libibverbs is not installed, so that NCCL cannot use InfiniBand or RoCE."""

from nccl_insight.facts.fabric.networks import socket_processes
from nccl_insight.facts.fabric.reach import spans_hosts
from nccl_insight.facts.said.mentions import library_missing
from nccl_insight.facts.setup.settings import hosts_of, refs
from nccl_insight.rules._sockets import chosen_by_user, rdma_hints
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for the run."""
    run = ctx.run
    rows = library_missing(run)
    if rows.is_empty():
        return
    hosts = hosts_of(rows)
    hints = rdma_hints(run)
    matters = bool(
        hints and spans_hosts(run) is not False and chosen_by_user(run).is_empty() and socket_processes(run).height
    )
    yield ctx.says(
        "found", (*refs(rows, 2), *(refs(hints[0][1], 1) if matters else ())), whom=hosts, matters=matters, hints=hints
    )
