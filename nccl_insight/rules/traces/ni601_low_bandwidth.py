"""NCCL's own model of the machine is slow."""

import polars as pl

from nccl_insight.base.model import Ref
from nccl_insight.facts.fabric.paths import gpu_paths, has_nvlink
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """Pairs of GPUs that NCCL's model joins only across sockets."""
    gpus = gpu_paths(ctx.run)
    limit = ctx["across_sockets_gbps"]
    slow = gpus.filter((pl.col("path") == "SYS") & (pl.col("bw_gbps") <= limit))
    if slow.is_empty() or has_nvlink(ctx.run):
        return
    pairs, total = slow.height, gpus.height
    yield ctx.says(
        "found",
        tuple(
            Ref(i, n)
            for i, n in slow.unique(["input_id", "line"], maintain_order=True)
            .select("input_id", "line")
            .head(5)
            .iter_rows()
        ),
        pairs=pairs,
        total=total,
        lowest=min(slow["bw_gbps"].drop_nulls().to_list()),
    )
