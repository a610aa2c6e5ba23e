"""A benchmark reaches far less than its links allow, or NCCL's own model of the machine is slow.

What it finds
-------------
Benchmark rows (nccl-tests, capture) whose best large-message bus bandwidth stays below a share of what the GPU
model reaches inside one node; GPUs that reach each other only across CPU sockets at low modelled bandwidth.

Why it matters
--------------
Every training step pays for it: twice the time on the wire for half the bandwidth.

How it decides
--------------
Only where the link is known: one node, at least 4 ranks (8 on V100, whose pairs have unequal links), a GPU model
with NVLink, messages of 64 MiB and more, best of all such rows. The expected figure is what the model's published
nccl-tests results reach at least; the threshold is a share of it. From a topology dump, the modelled bandwidth
between GPUs of one node is compared with what NVLink or one PCIe switch gives; there it is reported as a note about the
machine, not a fault.

What to do
----------
Run `nvidia-smi topo -m` and `nvidia-smi nvlink -s`; look at the transport lines of the log for SHM, SYS or sockets
where NVLink should be; look for pinned NCCL_* settings.

False positives
---------------
GPUs shared with another job during the benchmark; partitioned GPUs (MIG).

References
----------
nccl-tests doc/PERFORMANCE.md; NVIDIA data sheets for NVLink rates.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.bandwidth import gpu_peak
from nccl_insight.facts.paths import gpu_paths, has_nvlink
from nccl_insight.facts.thresholds import threshold
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Ref, Severity
from nccl_insight.tables.run import Run
from nccl_insight.units import format_bytes, format_gbps

CLASS = "P"
SEVERITY = Severity.WARNING
ACTION = Action.TRIAGE
CONFIDENCE = Confidence.MEDIUM
NEEDS = ("benchmarks", "paths")
THRESHOLDS = {"share_of_expected": 0.6, "across_sockets_gbps": 12.0}
CAUSED_BY = (
    "p2p-disabled-by-env", "p2p-not-available", "p2p-through-cpu", "net-socket-fallback", "nvlink-degraded",
    "fabric-manager-issue", "env-tuning-pinned", "gdr-not-used", "algorithm-surprising",
)  # fmt: skip
SOURCES = ("nccl-tests PERFORMANCE.md", "NVIDIA data sheets")

_OPS = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "AllToAll")
_LARGE_BYTES = 64 * 1024 * 1024
_NEXT = "nvidia-smi topo -m; nvidia-smi nvlink -s; grep ' via ' <log>   # which transport each pair uses"


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding a benchmark table, one for the modelled paths."""
    yield from _benchmarks(run)
    yield from _paths(run)


def _benchmarks(run: Run) -> Iterator[Hit | CannotJudge]:
    rows = run.table("benchmarks")
    large = rows.filter(
        (pl.col("size_bytes") >= _LARGE_BYTES) & pl.col("op").is_in(_OPS) & (pl.col("busbw_gbps") > 0)
    )
    share = threshold(run, "low-bandwidth", "share_of_expected", THRESHOLDS["share_of_expected"])
    unknown: set[str] = set()
    for part in large.partition_by("input_id", "run", "op", maintain_order=True):
        best = part.sort("busbw_gbps", descending=True).row(0, named=True)
        peak = gpu_peak(best["gpu"])
        nranks, hosts = best["nranks"] or 0, best["n_hosts"] or 0
        if peak is None or peak.expected_gbps is None:
            unknown.add(str(best["gpu"] or "not printed"))
            continue
        if (
            hosts != 1
            or nranks < (8 if peak.model == "V100" else 4)
            or best["busbw_gbps"] >= share * peak.expected_gbps
        ):
            continue
        line = best.get("line")
        observed, expected = format_gbps(best["busbw_gbps"]), format_gbps(peak.expected_gbps)
        yield Hit(
            title=f"{best['op']} of {format_bytes(best['size_bytes'])} on {nranks} {peak.model} GPUs of one node "
            f"reaches {observed}; this model reaches {expected}",
            next_step=_NEXT,
            explanation=f"Best of {part.height} rows of 64 MiB and more. NVLink of this model: {peak.nvlink_gbps:.0f} "
            "GB/s per GPU and direction.",
            observed=f"{observed} busbw",
            expected=f"{expected} or more (published results for {peak.model}); warned below {share:.0%} of it",
            evidence=(
                Ref(
                    best["input_id"],
                    line or 0,
                    None if line else f"{best['op']} {best['size_bytes']}: {observed}",
                ),
            ),
        )
    if unknown:
        yield CannotJudge(
            f"benchmark results of GPUs without a known link figure ({', '.join(sorted(unknown)[:3])})",
            "add the log with the transport lines of the same run; `nccl-insight expect` says which GPUs are known",
        )


def _paths(run: Run) -> Iterator[Hit]:
    """Pairs of GPUs that NCCL's model joins only across sockets."""
    gpus = gpu_paths(run)
    limit = threshold(run, "low-bandwidth", "across_sockets_gbps", THRESHOLDS["across_sockets_gbps"])
    slow = gpus.filter((pl.col("path") == "SYS") & (pl.col("bw_gbps") <= limit))
    if slow.is_empty() or has_nvlink(run):
        return
    lowest = min(slow["bw_gbps"].drop_nulls().to_list())
    pairs, total = slow.height, gpus.height
    yield Hit(
        title=f"{pairs} of {total} GPU pairs are joined only across CPU sockets: NCCL models {lowest:.0f} GB/s there",
        next_step="nvidia-smi topo -m   # SYS: across sockets; keep tightly coupled ranks on one socket",
        explanation="The machine has no NVLink between its GPUs. Low bus bandwidth is then expected and no fault.",
        observed=f"{lowest:.0f} GB/s across sockets (path SYS)",
        expected="24 GB/s or more behind one PCIe root, hundreds with NVLink",
        severity=Severity.INFO,
        action=Action.NONE,
        confidence=Confidence.HIGH,
        evidence=tuple(
            Ref(i, n)
            for i, n in slow.unique(["input_id", "line"], maintain_order=True)
            .select("input_id", "line")
            .head(5)
            .iter_rows()
        ),
    )
