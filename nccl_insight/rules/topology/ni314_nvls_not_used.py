"""NVLink SHARP (NVLS) is available and not used."""

import polars as pl

from nccl_insight.facts.setup.outliers import outliers
from nccl_insight.facts.setup.settings import hosts_of, ranks_of, refs, setting
from nccl_insight.facts.who.members import members, unambiguous
from nccl_insight.loading.assemble.places import placed
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for hosts that differ, else one for the run."""
    run = ctx.run
    counts = placed(run, unambiguous(run, run.table("channel_counts")).filter(pl.col("nvls_channels").is_not_null()))
    used = pl.when(pl.col("nvls_channels") > 0).then(pl.lit("used")).otherwise(pl.lit("not used"))
    counts = counts.with_columns(nvls=used)
    odd = [o for o in outliers(counts, "nvls") if o.value == "not used"]
    off = setting(run, "NCCL_NVLS_ENABLE").filter(pl.col("value") == "0")
    algorithm = setting(run, "NCCL_ALGO")
    if off.height:
        return
    if odd:
        first = odd[0]
        yield ctx.says("found", first, comm_id=first.comm_id, hosts=first.whole_hosts or first.hosts, first=first)
        return
    yield from _unused(ctx, counts, algorithm)


def _unused(ctx: Context, counts: pl.DataFrame, algorithm: pl.DataFrame) -> Hits:
    support = ctx.run.table("nvls").filter((pl.col("event") == "support") & pl.col("nvls_not").is_null())
    if support.is_empty() or counts.is_empty() or counts.filter(pl.col("nvls") == "used").height:
        return
    local = members(ctx.run).select("comm_id", "rank", "local_ranks")
    rows = counts.join(local, on=["comm_id", "rank"], how="left", nulls_equal=True).filter(pl.col("local_ranks") > 2)
    if rows.is_empty():
        return
    forced = algorithm.height > 0 and "nvls" not in str(algorithm.item(0, "value")).lower()
    yield ctx.says(
        "unused",
        (*refs(support, 1), *refs(rows, 1), *refs(algorithm, 1)),
        whom=hosts_of(rows),
        ranks_there=ranks_of(rows),
        forced=forced,
        algorithm=algorithm,
    )
