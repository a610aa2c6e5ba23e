"""NCCL's own model of the machine is slow."""

import polars as pl

from nccl_insight.facts.fabric.paths import gpu_paths, has_nvlink
from nccl_insight.facts.setup.settings import refs
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """Pairs of GPUs that NCCL's model joins only across sockets."""
    gpus = gpu_paths(ctx.run)
    slow = gpus.filter((pl.col("path") == "SYS") & (pl.col("bw_gbps") <= ctx["across_sockets_gbps"]))
    if slow.is_empty() or has_nvlink(ctx.run):
        return
    yield ctx.says(
        "found", refs(slow, 5), pairs=slow.height, total=gpus.height, lowest=min(slow["bw_gbps"].drop_nulls().to_list())
    )
