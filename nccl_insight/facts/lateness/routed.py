"""Waiting that follows the data: groups whose ranks get unequal numbers of tokens from the router of a model."""

from typing import Final

import polars as pl

from nccl_insight.base.bandwidth import BY_TOKENS
from nccl_insight.tables.run import Run, fact

_UNEQUAL: Final = 1.1


@fact
def routed_ranks(run: Run) -> frozenset[int]:
    """Ranks of groups of experts that get unequal numbers of tokens: their compute differs with these.

    Such are process groups in which most all-to-all exchanges have parts or sums that differ by 10 % or more.
    """
    table = run.table("collectives").filter(
        pl.col("op").cast(pl.String).is_in(BY_TOKENS)
        & (pl.col("size_bytes") > 0)
        & pl.col("process_group").is_not_null()
    )
    sums = (
        table.filter(pl.col("match_id").is_not_null())
        .group_by("process_group", "match_id")
        .agg(unequal=pl.col("size_bytes").max() / pl.col("size_bytes").mean())
    )
    parts = table.filter(pl.col("split_max_share").is_not_null()).select("process_group", unequal="split_max_share")
    each = pl.concat([sums.select("process_group", "unequal"), parts], how="vertical_relaxed")
    # An exchange of equal sums on its way out comes back in unequal ones, so half of them suffice.
    shares = each.group_by("process_group").agg(share=(pl.col("unequal") >= _UNEQUAL).mean())
    groups = shares.filter(pl.col("share") >= 0.4)["process_group"]
    rows = run.table("collectives").filter(pl.col("process_group").is_in(groups.implode()))
    return frozenset(rows["rank"].drop_nulls().to_list())
