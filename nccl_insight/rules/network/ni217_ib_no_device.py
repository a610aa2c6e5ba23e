"""NCCL found no InfiniBand or RoCE device.

What it finds
-------------
"NET/IB : No device found".

Why it matters
--------------
Harmless on machines without RDMA hardware and in jobs on one node. In a job on several nodes it explains why
traffic goes over sockets; that is then reported as net-socket-fallback.

How it decides
--------------
The line itself.

What to do
----------
If the host has RDMA devices: ``ibv_devinfo`` inside the container, and look at the filter NCCL_IB_HCA.

False positives
---------------
None; the finding is information.

References
----------
NCCL source transport/net_ib.cc.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.facts.mentions import no_device
from nccl_insight.facts.reach import spans_hosts
from nccl_insight.facts.settings import hosts_of, named, refs, setting
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.tables.run import Run

CLASS = "I"
SEVERITY = Severity.INFO
ACTION = Action.NONE
NEEDS = ("errors", "net_devices", "unknown")
SPEAKS = True


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for the run."""
    rows = no_device(run)
    if rows.is_empty():
        return
    hosts = hosts_of(rows)
    wanted = setting(run, "NCCL_IB_HCA")
    filtered = f" NCCL_IB_HCA={wanted.item(0, 'value')} may exclude them all." if wanted.height else ""
    one_node = spans_hosts(run) is False
    yield Hit(
        title="NCCL found no InfiniBand or RoCE device" + (f" on {named(hosts)}" if hosts else ""),
        explanation=(
            "The job stays on one node, so that no network is needed."
            if one_node
            else f"Normal on hosts without RDMA hardware; else the devices are hidden from the job.{filtered}"
        ),
        observed="0 RDMA devices",
        expected="0, or one for each RDMA port of the host",
        next_step="nothing to do"
        if one_node
        else "ibv_devinfo   # inside the container: does it list a device?",
        confidence=Confidence.HIGH,
        hosts=hosts,
        evidence=(*refs(rows, 2), *refs(wanted, 1)),
    )
