"""A benchmark reaches far less than its links allow, or NCCL's own model of the machine is slow."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.base.bandwidth import gpu_peak
from nccl_insight.base.model import Action, CannotJudge, Confidence, Hit, Ref, Severity
from nccl_insight.base.units import format_bytes, format_gbps
from nccl_insight.facts.paths import gpu_paths, has_nvlink
from nccl_insight.rules.context import Context

_OPS = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "AllToAll")
_LARGE_BYTES = 64 * 1024 * 1024
_NEXT = "nvidia-smi topo -m; nvidia-smi nvlink -s; grep ' via ' <log>   # which transport each pair uses"


def check(ctx: Context) -> Iterator[Hit | CannotJudge]:
    """One finding a benchmark table, one for the modelled paths."""
    yield from _benchmarks(ctx)
    yield from _paths(ctx)


def _benchmarks(ctx: Context) -> Iterator[Hit | CannotJudge]:
    run = ctx.run
    rows = run.table("benchmarks")
    large = rows.filter((pl.col("size_bytes") >= _LARGE_BYTES) & pl.col("op").is_in(_OPS) & (pl.col("busbw_gbps") > 0))
    share = ctx["share_of_expected"]
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
        yield ctx.hit(
            (Ref(best["input_id"], line or 0, None if line else f"{best['op']} {best['size_bytes']}: {observed}"),),
            title=f"{best['op']} of {format_bytes(best['size_bytes'])} on {nranks} {peak.model} GPUs of one node "
            f"reaches {observed}; this model reaches {expected}",
            next_step=_NEXT,
            explanation=f"Best of {part.height} rows of 64 MiB and more. NVLink of this model: {peak.nvlink_gbps:.0f} "
            "GB/s per GPU and direction.",
            observed=f"{observed} busbw",
            expected=f"{expected} or more (published results for {peak.model}); warned below {share:.0%} of it",
        )
    if unknown:
        yield CannotJudge(
            f"benchmark results of GPUs without a known link figure ({', '.join(sorted(unknown)[:3])})",
            "add the log with the transport lines of the same run; `nccl-insight expect` says which GPUs are known",
        )


def _paths(ctx: Context) -> Iterator[Hit]:
    """Pairs of GPUs that NCCL's model joins only across sockets."""
    run = ctx.run
    gpus = gpu_paths(run)
    limit = ctx["across_sockets_gbps"]
    slow = gpus.filter((pl.col("path") == "SYS") & (pl.col("bw_gbps") <= limit))
    if slow.is_empty() or has_nvlink(run):
        return
    lowest = min(slow["bw_gbps"].drop_nulls().to_list())
    pairs, total = slow.height, gpus.height
    yield ctx.hit(
        tuple(
            Ref(i, n)
            for i, n in slow.unique(["input_id", "line"], maintain_order=True)
            .select("input_id", "line")
            .head(5)
            .iter_rows()
        ),
        title=f"{pairs} of {total} GPU pairs are joined only across CPU sockets: NCCL models {lowest:.0f} GB/s there",
        next_step="nvidia-smi topo -m   # SYS: across sockets; keep tightly coupled ranks on one socket",
        explanation="The machine has no NVLink between its GPUs. Low bus bandwidth is then expected and no fault.",
        observed=f"{lowest:.0f} GB/s across sockets (path SYS)",
        expected="24 GB/s or more behind one PCIe root, hundreds with NVLink",
        severity=Severity.INFO,
        action=Action.NONE,
        confidence=Confidence.HIGH,
    )
