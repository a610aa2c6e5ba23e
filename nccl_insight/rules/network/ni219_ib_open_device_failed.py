"""An RDMA device is listed but cannot be opened.

What it finds
-------------
"Call to ibv_open_device failed" and "NET/IB : Unable to open device".

Why it matters
--------------
The host has RDMA, the process may not use it: NCCL continues with fewer NICs or over sockets, without an error.

How it decides
--------------
The lines that say so; the devices that they name are listed.

What to do
----------
Pass the devices and the right to lock memory into the container: ``--device /dev/infiniband --ulimit
memlock=-1`` (or ``--privileged``), or the RDMA device plugin of the cluster.

False positives
---------------
A virtual function that is meant for another container.

References
----------
NVIDIA/nccl issues 451 and 1925.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.mentions import mentions
from nccl_insight.facts.settings import hosts_of, named, ranks_of, refs
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._errors import trouble
from nccl_insight.tables.run import Run
from nccl_insight.units import plural

CLASS = "P"
SEVERITY = Severity.WARNING
ACTION = Action.CONFIG
NEEDS = ("errors",)
SPEAKS = True
SOURCES = ("NVIDIA/nccl#451", "NVIDIA/nccl#1925")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all devices."""
    rows = mentions(run, "device-unopened")
    said = trouble(run, "ib-open-device-failed")
    if said is not None:
        shown = said.rows.select(pl.lit("errors").alias("table"), *(c for c in rows.columns if c != "table"))
        rows = pl.concat([rows, shown], how="vertical_relaxed").unique(
            ["input_id", "line"], keep="first", maintain_order=True
        )
    if rows.is_empty():
        return
    devices = [] if said is None else said.rows["hca_name"].drop_nulls().unique(maintain_order=True).to_list()
    hosts = hosts_of(rows)
    what = ", ".join(devices[:4]) if devices else "An RDMA device"
    yield Hit(
        title=f"{what} cannot be opened"
        + (f" on {named(hosts)}" if hosts else "")
        + ": the process lacks the device files or the right to use them",
        explanation="The driver lists the device, ibv_open_device fails: typical of a container started without "
        "/dev/infiniband.",
        observed=f"{plural(max(1, len(devices)), 'device')} not opened",
        next_step="start the container with --device /dev/infiniband --ulimit memlock=-1 --cap-add IPC_LOCK, "
        "then check with ibv_devinfo inside it",
        confidence=Confidence.HIGH,
        ranks=ranks_of(rows),
        hosts=hosts,
        evidence=refs(rows, 3),
    )
