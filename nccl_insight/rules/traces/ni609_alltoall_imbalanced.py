"""All-to-all messages differ strongly in size between ranks."""

import polars as pl

from nccl_insight.facts.lateness.replay import LATE
from nccl_insight.rules._gains import mended
from nccl_insight.rules._traces import ranks_of, refs_of, with_hosts
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all ranks."""
    run = ctx.run
    table = run.table("collectives").filter(
        pl.col("op").cast(pl.String).is_in(["AllToAll", "AllToAllv"]) & (pl.col("size_bytes") >= ctx["least_bytes"])
    )
    by_split = table.filter(pl.col("split_max_share").is_not_null()).with_columns(ratio="split_max_share")
    parts = [p for p in (by_split, _by_rank(table)) if p.height]
    for rows in parts:
        bad = rows.filter(pl.col("ratio") >= ctx["ratio"])
        if rows.height < ctx["least"] or bad.height < ctx["share"] * rows.height:
            continue
        worst = bad.sort("ratio", descending=True).row(0, named=True)
        # What the one rank that the others wait for costs, where a replay of the traces tells.
        late = mended(run, LATE)
        ranks = late[0].scenario.ranks if late else ()
        yield ctx.says(
            "found",
            refs_of(
                bad.with_columns(pl.col("size_bytes").fill_null(0)),
                "{size_bytes:bytes}, largest part {ratio:.1f} times the mean",
            ),
            whom=with_hosts(run, ranks_of(bad)),
            typical=float(bad.select(pl.col("ratio").median()).item()),
            bad=bad,
            rows=rows,
            costs=f"; the others wait for rank {ranks[0]} ({late[0].share:.0%} lost)" if len(ranks) == 1 else "",
            worst=worst,
            size_bytes=worst["size_bytes"] or 0,
        )
        return


def _by_rank(table: pl.DataFrame) -> pl.DataFrame:
    """Largest over mean size of the ranks of one exchange; the row names the rank that sends most."""
    return (
        table.filter(pl.col("match_id").is_not_null())
        .sort("size_bytes", descending=True)
        .group_by("match_id", maintain_order=True)
        .agg(
            pl.col("input_id", "rank", "size_bytes").first(),
            ratio=pl.col("size_bytes").max() / pl.col("size_bytes").mean(),
        )
    )
