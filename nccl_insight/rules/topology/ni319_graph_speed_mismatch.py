"""A host finds slower ways through its topology than the other hosts of its communicator."""

import polars as pl

from nccl_insight.facts.setup.outliers import Outlier, outliers
from nccl_insight.facts.who.members import members, unambiguous
from nccl_insight.loading.assemble.places import placed
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.normalise.codes import RING

_FACTS = (("bw_intra_gbps", "inside the node"), ("bw_inter_gbps", "between nodes"))


def check(ctx: Context) -> Hits:
    """One finding for each set of slower ranks of the ring graph."""
    run = ctx.run
    per_host = (
        members(run)
        .group_by("comm_id", "host")
        .len()
        .group_by("comm_id")
        .agg(sizes=pl.col("len").n_unique())
        .filter(pl.col("sizes") > 1)
    )
    graphs = placed(
        run,
        unambiguous(run, run.table("graphs"))
        .filter((pl.col("pattern") == RING) & (pl.col("n_channels") > 0) & pl.col("comm_id").is_not_null())
        .unique(["comm_id", "rank"], keep="first", maintain_order=True)
        .join(per_host, on="comm_id", how="anti", maintain_order="left"),
    )
    found: dict[tuple[int, ...], tuple[Outlier, str]] = {}
    for column, words in _FACTS:
        for odd in outliers(graphs, column):
            if float(odd.value) < float(odd.majority):
                found.setdefault(odd.ranks, (odd, words))
    for odd, words in found.values():
        yield ctx.says(
            "found",
            odd,
            comm_id=odd.comm_id,
            value=float(odd.value),
            words=words,
            odd=odd,
            majority=float(odd.majority),
        )
