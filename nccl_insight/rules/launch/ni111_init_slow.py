"""Creating a communicator took long."""

import polars as pl

from nccl_insight.base.model import Hit, Severity
from nccl_insight.base.units import rank_words
from nccl_insight.facts.setup.settings import hosts_of, named, ranks_of, refs
from nccl_insight.loading.assemble.places import placed
from nccl_insight.rules.context import Context, Hits

_OWN = ("kernels_s", "alloc_s", "topo_s", "graphs_s", "connections_s", "rest_s")
_WAIT = ("bootstrap_s", "allgathers_s")


def check(ctx: Context) -> Hits:
    """One finding for the slowest communicator."""
    limit = ctx["total_s"]
    factor = ctx["factor"]
    least = ctx["least_s"]
    table = ctx.run.table("init_timings").filter(pl.col("total_s").is_not_null())
    table = table.with_columns(
        own_s=pl.sum_horizontal(pl.col(*_OWN).fill_null(0.0)),
        n=pl.len().over("comm_id"),
        median_s=pl.col("total_s").median().over("comm_id"),
    ).with_columns(own_median_s=pl.col("own_s").median().over("comm_id"))
    absolute = pl.col("total_s") > limit + 0.01 * pl.col("n")
    noted = pl.col("total_s") > limit / 4 + 0.01 * pl.col("n")
    relative = (pl.col("n") > 2) & (pl.col("total_s") > least) & (pl.col("total_s") > factor * pl.col("median_s"))
    alone = (pl.col("n") > 2) & (pl.col("own_s") > 6 * least) & (pl.col("own_s") > factor * pl.col("own_median_s"))
    slow = table.filter(absolute | relative | alone)
    severity = Severity.WARNING
    if slow.is_empty():
        slow, severity = table.filter(noted), Severity.INFO
    if slow.is_empty():
        return
    worst = slow.sort("total_s", descending=True, maintain_order=True).row(0, named=True)
    yield _hit(ctx, table, slow, worst["comm_id"], severity)


def _hit(ctx: Context, table: pl.DataFrame, slow: pl.DataFrame, comm_id: str | None, severity: Severity) -> Hit:
    inside = slow.filter(pl.col("comm_id").eq_missing(pl.lit(comm_id, dtype=pl.String)))
    every = table.filter(pl.col("comm_id").eq_missing(pl.lit(comm_id, dtype=pl.String)))
    guilty = inside.filter(pl.col("own_s") > 3 * pl.col("own_median_s"))
    named_ranks = guilty if 0 < guilty.height < every.height else inside
    first = named_ranks.sort("total_s", descending=True, maintain_order=True).row(0, named=True)
    phase = max((*_OWN, *_WAIT), key=lambda p: first[p] or 0.0)
    some = named_ranks.height < every.height
    ranks = ranks_of(named_ranks) if some else ()
    hosts = hosts_of(placed(ctx.run, named_ranks.select("comm_id", "rank")))
    median = first["median_s"]
    who = rank_words(ranks) + (f" on {named(hosts)}" if hosts else "") if some else "all ranks"
    return ctx.says(
        "found",
        (*refs(named_ranks, 2), *refs(every.filter(pl.col("total_s") <= median), 1)),
        whom=(*ranks, *(hosts if some else ())),
        unit="s",
        severity=severity,
        comm_id=comm_id,
        first=first,
        word=phase.removesuffix("_s"),
        phase_s=first[phase] or 0.0,
        who=who,
        every=every,
        median=median,
        some=some,
        far=some and median < first["total_s"] / 2,
    )
