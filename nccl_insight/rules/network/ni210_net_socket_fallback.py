"""Nodes talk over TCP sockets although RDMA was there or asked for."""

import polars as pl

from nccl_insight.base.model import Hit, Ref
from nccl_insight.facts.fabric.networks import process_networks, socket_processes
from nccl_insight.facts.fabric.reach import spans_hosts
from nccl_insight.facts.setup.settings import hosts_of, refs
from nccl_insight.facts.who.transports import rdma_expr
from nccl_insight.rules._sockets import Cause, causes, chosen_by_user, plugin_failures, rdma_hints
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all processes on sockets that did not choose them."""
    run = ctx.run
    sockets = socket_processes(run)
    reach = spans_hosts(run)
    if sockets.is_empty() or reach is False:
        return
    failed = plugin_failures(run)
    if failed.is_empty():
        chosen = chosen_by_user(run).select("host", "pid")
        sockets = sockets.join(chosen, on=["host", "pid"], how="anti", nulls_equal=True)
    if sockets.is_empty():
        return
    reasons = causes(run)
    hints = rdma_hints(run)
    elsewhere = process_networks(run).filter(rdma_expr("network") & pl.col("host").is_not_null())
    elsewhere = elsewhere.join(sockets.select("host"), on="host", how="anti")
    certain = [c for c in reasons if c.certain]
    expected = bool(certain or hints or (elsewhere.height and reach))
    if reach is None and not expected:
        return
    if elsewhere.height:
        hints.append((f"other processes use {elsewhere.item(0, 'network')}", elsewhere))
    yield _hit(ctx, sockets, reasons, hints, expected, bool(certain))


def _hit(
    ctx: Context,
    sockets: pl.DataFrame,
    reasons: tuple[Cause, ...],
    hints: list[tuple[str, pl.DataFrame]],
    expected: bool,
    certain: bool,
) -> Hit:
    hosts = hosts_of(sockets)
    network = sockets.item(0, "network")
    evidence: list[Ref] = [*refs(sockets, 2)]
    for cause in reasons[:2]:
        evidence += refs(cause.rows, 1)
    for _, rows in hints[:2]:
        evidence += refs(rows, 1)
    first = reasons[0] if reasons else None
    others = "; ".join(f"{c.what} (`{c.check}`)" for c in reasons[1:])
    if not expected:
        return ctx.says("found-traffic-between", tuple(evidence), whom=hosts, network=network, first=first)
    likely = first.what if first else "the RDMA network of these hosts was not set up"
    return ctx.says(
        "found",
        tuple(evidence),
        whom=hosts,
        caused_by=tuple(c.diagnosis for c in reasons[:1]),
        network=network,
        likely=likely,
        signs="; ".join(text for text, _ in hints),
        others=others,
        first=first,
        certain=certain,
    )
