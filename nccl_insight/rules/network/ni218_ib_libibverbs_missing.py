"""libibverbs is not installed, so that NCCL cannot use InfiniBand or RoCE."""

from nccl_insight.base.model import Action, Severity
from nccl_insight.facts.mentions import library_missing
from nccl_insight.facts.networks import socket_processes
from nccl_insight.facts.reach import spans_hosts
from nccl_insight.facts.settings import hosts_of, named, refs
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
    yield ctx.hit(
        (*refs(rows, 2), *(refs(hints[0][1], 1) if matters else ())),
        whom=hosts,
        title="libibverbs is not installed"
        + (f" on {named(hosts)}" if hosts else "")
        + (": no RDMA, although " + hints[0][0] if matters else ""),
        explanation=(
            "NCCL loads libibverbs at run time; without it there is no InfiniBand or RoCE."
            if matters
            else "Harmless on hosts without RDMA hardware and in jobs on one node."
        ),
        observed="libibverbs.so[.1] cannot be opened",
        severity=Severity.WARNING if matters else Severity.INFO,
        action=Action.CONFIG if matters else Action.NONE,
    )
