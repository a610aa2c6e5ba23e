"""Traffic goes over TCP sockets because a setting says so.

What it finds
-------------
Processes on the socket network of which the environment rules out RDMA: ``NCCL_IB_DISABLE=1`` or
``NCCL_NET=Socket``.

Why it matters
--------------
Sockets reach a fraction of what InfiniBand, RoCE or EFA carry. As a choice that is no fault, but the setting
often outlives the problem it was made for, or comes along with a copied launch script.

How it decides
--------------
The process reports one of the two settings, and its network is Socket (or no network line is in the log).
A failed network plugin in the same log takes precedence: then it is net-socket-fallback.

What to do
----------
Nothing if TCP is wanted. Else remove the setting and run again: ``unset NCCL_IB_DISABLE NCCL_NET``.

False positives
---------------
On one node the setting costs nothing between GPUs that reach each other by NVLink, PCIe or shared memory;
the finding stays information.

References
----------
NCCL user guide, environment variables NCCL_IB_DISABLE and NCCL_NET.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.networks import socket_processes
from nccl_insight.facts.reach import spans_hosts
from nccl_insight.facts.settings import hosts_of, refs
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._sockets import chosen_by_user, plugin_failures
from nccl_insight.tables.run import Run

CLASS = "I"
SEVERITY = Severity.INFO
ACTION = Action.CONFIG
NEEDS = ("env",)
SOURCES = ("NCCL user guide: NCCL_IB_DISABLE, NCCL_NET",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for the settings that rule out RDMA."""
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
        f"{name}={value}"
        for name, value in concerned.select("name", "value").unique(maintain_order=True).rows()
    )
    one_node = spans_hosts(run) is False
    where = sockets.join(concerned.select("host", "pid"), on=["host", "pid"], how="semi", nulls_equal=True)
    yield Hit(
        title=f"The network is TCP sockets because of {what}",
        explanation=(
            "All ranks share one node, so that GPU traffic does not use this network."
            if one_node
            else "Traffic between nodes uses TCP; RDMA networks, if there are any, were not tried."
        ),
        observed="network Socket",
        next_step=f"if RDMA is wanted, remove {what.split('=')[0]} from the job's environment and run again",
        confidence=Confidence.HIGH,
        action=Action.NONE if one_node else Action.CONFIG,
        hosts=hosts_of(concerned),
        evidence=(*refs(concerned, 2), *refs(where.filter(pl.col("line").is_not_null()), 1)),
    )
