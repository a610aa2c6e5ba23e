"""NCCL's own model of the machine is slow."""

import polars as pl

from nccl_insight.base.model import Action, Confidence, Ref, Severity
from nccl_insight.facts.paths import gpu_paths, has_nvlink
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
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
        observed=f"{lowest:.0f} GB/s across sockets (path SYS)",
        severity=Severity.INFO,
        action=Action.NONE,
        confidence=Confidence.HIGH,
    )
