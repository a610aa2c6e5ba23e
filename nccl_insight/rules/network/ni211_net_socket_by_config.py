"""Traffic goes over TCP sockets because a setting says so."""

import polars as pl

from nccl_insight.facts.fabric.networks import socket_processes
from nccl_insight.facts.fabric.reach import spans_hosts
from nccl_insight.facts.setup.settings import hosts_of, refs
from nccl_insight.rules._sockets import chosen_by_user, plugin_failures
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for the settings that rule out RDMA."""
    run = ctx.run
    chosen = chosen_by_user(run)
    if chosen.is_empty() or plugin_failures(run).height:
        return
    sockets = socket_processes(run)
    if sockets.is_empty():
        return
    concerned = chosen.join(sockets.select("host", "pid"), on=["host", "pid"], how="semi", nulls_equal=True)
    if concerned.is_empty():
        return
    what = " and ".join(
        f"{name}={value}" for name, value in concerned.select("name", "value").unique(maintain_order=True).rows()
    )
    where = sockets.join(concerned.select("host", "pid"), on=["host", "pid"], how="semi", nulls_equal=True)
    yield ctx.says(
        "found",
        (*refs(concerned, 2), *refs(where.filter(pl.col("line").is_not_null()), 1)),
        whom=hosts_of(concerned),
        what=what,
        one_node=spans_hosts(run) is False,
        variable=what.split("=")[0],
    )
