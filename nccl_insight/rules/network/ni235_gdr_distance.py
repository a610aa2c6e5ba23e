"""GPUDirect RDMA is off because GPU and NIC are too far apart.

What it finds
-------------
"GPU Direct RDMA Disabled for GPU .. / HCA .. (distance a > b)" for a GPU that has no nearer NIC.

Why it matters
--------------
The data goes through host memory. NCCL's limit is a policy: beyond a PCIe switch, direct transfers are often no
faster than copies.

How it decides
--------------
Every such line is a pair of GPU and NIC. Pairs of GPUs that have another NIC within the limit are normal and
left out.

What to do
----------
See with ``nvidia-smi topo -m`` whether another slot or NIC is nearer. ``NCCL_NET_GDR_LEVEL=SYS`` forces it:
measure before keeping it.

False positives
---------------
Virtual machines with a flat PCIe tree show far distances for near devices.

References
----------
NVIDIA/nccl issue 1151; NCCL user guide, NCCL_NET_GDR_LEVEL.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.facts.settings import hosts_of, named, refs
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._gdr import paths_blocked
from nccl_insight.tables.run import Run
from nccl_insight.units import plural

CLASS = "I"
SEVERITY = Severity.INFO
ACTION = Action.CONFIG
NEEDS = ("gdr",)
SPEAKS = True
SOURCES = ("NVIDIA/nccl#1151", "NCCL user guide: NCCL_NET_GDR_LEVEL")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all GPUs without a near NIC."""
    far = paths_blocked(run)
    if far.is_empty():
        return
    distance, limit = far.item(0, "distance"), far.item(0, "limit")
    gpus = far.select("host", "gpu").n_unique()
    hosts = hosts_of(far)
    yield Hit(
        title=f"No NIC is near enough for GPUDirect RDMA (distance {distance}, limit {limit}): {plural(gpus, 'GPU')}"
        + (f" on {named(hosts)}" if hosts else ""),
        explanation="The numbers are NCCL's path types from one PCIe switch (low) to across sockets (high).",
        observed=f"distance {distance}",
        expected=f"distance of at most {limit}",
        next_step="nvidia-smi topo -m   # then try NCCL_NET_GDR_LEVEL=SYS and measure",
        confidence=Confidence.HIGH,
        hosts=hosts,
        evidence=refs(far, 3),
    )
