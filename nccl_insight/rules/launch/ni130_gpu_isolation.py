"""GPUs of one node cannot see each other."""

import polars as pl

from nccl_insight.facts.setup.settings import hosts_of, refs, setting, switched_on
from nccl_insight.facts.who.transports import links
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all hosts."""
    run = ctx.run
    if switched_on(run, "NCCL_P2P_DISABLE").height or setting(run, "NCCL_P2P_LEVEL").height:
        return
    inside = links(run).filter(pl.col("src_host").is_not_null() & (pl.col("src_host") == pl.col("dst_host")))
    slow = inside.filter(pl.col("transport").is_in(["SHM", "NET"]))
    if slow.is_empty() or inside.filter(pl.col("transport") == "P2P").height:
        return
    ranks = run.table("ranks").drop_nulls(["host", "cuda_dev"])
    hosts = ranks.group_by("host", maintain_order=True).agg(
        ranks=pl.col("rank").n_unique(), numbers=pl.col("cuda_dev").n_unique(), gpus=pl.col("bus_id").n_unique()
    )
    alone = hosts.filter((pl.col("ranks") > 1) & (pl.col("numbers") == 1) & (pl.col("gpus") > 1))["host"]
    rows = slow.filter(pl.col("src_host").is_in(alone.to_list()))
    if rows.is_empty():
        return
    names = hosts_of(rows, "src_host")
    n_pairs = rows.select("src_rank", "dst_rank").n_unique()
    yield ctx.says("found", refs(rows, 3), whom=names, names=names, n_pairs=n_pairs)
