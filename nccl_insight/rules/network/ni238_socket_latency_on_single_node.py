"""A one-node job reports network Socket, which is harmless."""

import polars as pl

from nccl_insight.facts.fabric.networks import socket_processes
from nccl_insight.facts.fabric.reach import nodes_are_processes, spans_hosts
from nccl_insight.facts.setup.settings import hosts_of, refs
from nccl_insight.facts.who.transports import links
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for the run."""
    run = ctx.run
    sockets = socket_processes(run)
    if sockets.is_empty() or spans_hosts(run) is not False or nodes_are_processes(run):
        return
    if links(run).filter(pl.col("transport") == "NET").height:
        return
    yield ctx.says("found", refs(sockets, 1), whom=hosts_of(sockets))
