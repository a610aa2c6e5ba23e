"""The traffic between nodes is spread unevenly over the NICs of a host.

What it finds
-------------
A host on which one NIC carries at least twice the channels of another NIC in use.

Why it matters
--------------
The busiest NIC sets the pace of every ring and tree: the others wait.

How it decides
--------------
Channels of sending RDMA connections (rings and trees, not send/recv) by NIC, for hosts that use two NICs or more.
The difference must be two channels or more. Connections by PXN count for the NIC's own GPU and are left out.

What to do
----------
Look at the GPU-NIC distances (``nvidia-smi topo -m``) and at NCCL_IB_HCA and NCCL_CROSS_NIC.

False positives
---------------
NICs of different speeds should carry different shares; they are left out when the log shows the speeds.

References
----------
NCCL source graph/search.cc.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.networks import nics
from nccl_insight.facts.reach import connections_judgeable
from nccl_insight.facts.settings import hosts_of, named, refs
from nccl_insight.facts.traffic import nic_load
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.tables.run import Run

CLASS = "P"
SEVERITY = Severity.WARNING
ACTION = Action.CONFIG
NEEDS = ("connections",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for the hosts with the largest difference."""
    uneven_speeds = (
        nics(run)
        .group_by("host", "network")
        .agg(pl.col("speed_gbit").drop_nulls().n_unique().alias("speeds"))
        .filter(pl.col("speeds") > 1)
    )
    load = nic_load(run).join(uneven_speeds, on=["host", "network"], how="anti", nulls_equal=True)
    per_host = (
        load.group_by("host", "network", maintain_order=True)
        .agg(
            pl.len().alias("nics"),
            pl.col("channels").max().alias("most"),
            pl.col("channels").min().alias("least"),
            pl.col("net_dev").sort_by("channels", descending=True).first().alias("busiest"),
        )
        .filter(
            (pl.col("nics") > 1)
            & (pl.col("most") >= 2 * pl.col("least"))
            & (pl.col("most") - pl.col("least") >= 2)
        )
    )
    if per_host.is_empty():
        return
    judgeable = connections_judgeable(run)
    worst = per_host.sort("most", descending=True, maintain_order=True).row(0, named=True)
    rows = load.join(per_host.select("host", "network"), on=["host", "network"], how="semi", nulls_equal=True)
    hosts = hosts_of(per_host)
    yield Hit(
        title=f"NIC {worst['busiest']}"
        + (f" on {named(hosts)}" if hosts else "")
        + f" carries {worst['most']} channels, another NIC of the host {worst['least']}",
        explanation="The busiest NIC sets the pace."
        + ("" if judgeable.yes else f" Not all connections may show: {judgeable.reason}."),
        observed=f"{worst['least']} to {worst['most']} channels per NIC",
        unit="channels",
        next_step="nvidia-smi topo -m; check NCCL_IB_HCA and NCCL_CROSS_NIC",
        severity=Severity.WARNING if judgeable.yes else Severity.INFO,
        confidence=Confidence.MEDIUM if judgeable.yes else Confidence.LOW,
        hosts=hosts,
        evidence=refs(rows.sort("channels", descending=True, maintain_order=True), 3),
    )
