"""GPUDirect RDMA is probably broken on these hosts.

What it finds
-------------
InfiniBand transfers that fail with memory access errors, and flushed requests without any other visible
error while GPUDirect RDMA is used.

Why it matters
--------------
With PCIe ACS or an IOMMU on the path, or a wrong peer-memory module, the NIC cannot access GPU memory:
jobs abort in the first collectives.

How it decides
--------------
A candidate: local protection errors are taken for it with medium confidence, unless the log shows
connections without GPUDirect RDMA only; flushed requests alone with low confidence. NCCL's own hint about
ACS counts as stated.

What to do
----------
Run once with NCCL_NET_GDR_LEVEL=0. If that works, disable ACS on the PCIe switches and check
nvidia-peermem, driver and firmware.

False positives
---------------
Buffers freed too early; errors at the peer that are not in the log.

References
----------
NVIDIA/nccl issues 928 and 1737; NCCL troubleshooting guide, GPU Direct and ACS.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.errors import present
from nccl_insight.facts.mentions import mentions
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._errors import report, trouble
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.WARNING
ACTION = Action.CONFIG
NEEDS = ("errors",)
SPEAKS = True
CONFIDENCE = Confidence.MEDIUM
_NEXT = (
    "NCCL_NET_GDR_LEVEL=LOC <the same job>   # if that works, GPUDirect RDMA is the reason; "
    "sudo lspci -vvv | grep ACSCtl   (SrcValid must be -); lsmod | grep nvidia_peermem"
)
_ELSEWHERE = {
    "ib-completion-retry-exceeded", "ib-local-access-violation", "ib-port-error", "ib-device-fatal",
    "collective-mismatch",
}  # fmt: skip


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """Stated by plugin or NCCL, else memory access errors, else flushes without a cause."""
    stated = trouble(run, "gdr-broken")
    if stated is not None:
        yield from _hit(
            run,
            "GPUDirect RDMA was announced and cannot be set up",
            Severity.ERROR,
            Confidence.HIGH,
            "gdr-broken",
        )
        return
    net = run.table("connections").filter(pl.col("transport").cast(pl.String) == "NET")
    if net.height and not net["gdr"].any():
        return
    causes = present(run)
    acs = not mentions(run, "acs-on").is_empty()
    if "ib-completion-local-prot" in causes:
        sure = Confidence.HIGH if acs else Confidence.MEDIUM
        title = "Possible cause: GPUDirect RDMA is broken (memory access errors)"
        yield from _hit(run, title, Severity.WARNING, sure, "ib-completion-local-prot")
    elif "ib-completion-flush" in causes and not causes & _ELSEWHERE:
        title = "Possible cause: GPUDirect RDMA is broken (flushed requests and no other error)"
        yield from _hit(run, title, Severity.INFO, Confidence.LOW, "ib-completion-flush")


def _hit(run: Run, title: str, severity: Severity, confidence: Confidence, cause: str) -> Iterator[Hit]:
    yield from report(
        run,
        cause,
        title,
        _NEXT,
        explanation="PCIe ACS (or an IOMMU that translates) sends peer-to-peer transfers through the root complex, "
        "where they fail; a missing "
        "or wrong nvidia-peermem has the same effect. One run without GPUDirect RDMA tells.",
        severity=severity,
        confidence=confidence,
    )
