"""GPUDirect RDMA: what NCCL said about it and what its connections use."""

import polars as pl

from nccl_insight.facts.who.transports import net_links, rdma_expr
from nccl_insight.tables.run import Run, fact


@fact
def gdr_lines(run: Run) -> pl.DataFrame:
    """Lines about GPUDirect: ``host, pid, scope`` (device or path), ``enabled, gpu, hca, reason, distance,
    limit, input_id, line``. Lines about TCP networks are left out. Distances are NCCL's path types as numbers."""
    return (
        run.lazy("gdr")
        .filter(pl.col("gdr_state").is_not_null())
        .filter(rdma_expr("network").fill_null(True))
        .select(
            "host",
            "pid",
            "scope",
            (pl.col("gdr_state") == "Enabled").alias("enabled"),
            pl.coalesce("gpu", pl.col("cuda_dev").cast(pl.String)).alias("gpu"),
            pl.coalesce("hca_name", pl.col("hca_index").cast(pl.String), "hca_id").alias("hca"),
            pl.col("gdr_reason").alias("reason"),
            "distance",
            pl.col("distance_limit").alias("limit"),
            "input_id",
            "line",
        )
        .collect(engine="in-memory")
    )


@fact
def gdr_by_host(run: Run) -> pl.DataFrame:
    """RDMA connections of each host: ``local_host, total, direct, without, ranks`` (those without, list),
    ``input_id, line`` (first connection without)."""
    direct = pl.col("gdr").fill_null(False)
    return (
        net_links(run)
        .filter("rdma")
        .group_by("local_host", maintain_order=True)
        .agg(
            pl.len().alias("total"),
            direct.sum().alias("direct"),
            (~direct).sum().alias("without"),
            pl.col("local_rank_id").filter(~direct).drop_nulls().unique().sort().alias("ranks"),
            pl.col("input_id", "line").filter(~direct).first(),
        )
    )
