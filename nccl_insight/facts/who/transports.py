"""Who talks to whom over what: connections folded to pairs of ranks."""

import polars as pl

from nccl_insight.loading.assemble.places import ends_placed
from nccl_insight.tables.run import Run, fact


@fact
def links(run: Run) -> pl.DataFrame:
    """Connections with the hosts of both ends.

    Columns of ``connections`` with ``src_host, dst_host, same_host`` (null where a host is unknown),
    ``transport`` as text. ``self`` connections are left out.
    """
    rows = run.table("connections").with_columns(pl.col("transport", "direction").cast(pl.String))
    rows = ends_placed(run, rows.filter(pl.col("transport").ne_missing("self")))
    return rows.with_columns(same_host=pl.col("src_host") == pl.col("dst_host"))


@fact
def pairs(run: Run) -> pl.DataFrame:
    """One row for (comm_id, src_rank, dst_rank, transport, network, method), in order of appearance.

    ``src_host, dst_host, same_host, gdr`` (all connections direct), ``any_gdr, n_channels, net_devs``
    (list), ``input_id, line`` (first).
    """
    keys = ["comm_id", "src_rank", "dst_rank", "transport", "network", "method"]
    return (
        links(run)
        .group_by(keys, maintain_order=True)
        .agg(
            pl.col("src_host", "dst_host", "same_host").first(),
            pl.col("gdr").fill_null(False).all().alias("gdr"),
            pl.col("gdr").fill_null(False).any().alias("any_gdr"),
            pl.col("channel").n_unique().alias("n_channels"),
            pl.col("net_dev").drop_nulls().unique().sort().alias("net_devs"),
            pl.col("input_id", "line").first(),
        )
    )


@fact
def net_links(run: Run) -> pl.DataFrame:
    """NET connections with ``local_host`` (of the printing end), ``local_rank_id`` and ``rdma``."""
    receives = pl.col("direction") == "receive"
    return (
        links(run)
        .filter(pl.col("transport") == "NET")
        .with_columns(
            local_rank_id=pl.when(receives).then("dst_rank").otherwise("src_rank"),
            local_host=pl.coalesce("host", pl.when(receives).then("dst_host").otherwise("src_host")),
            rdma=rdma_expr("network"),
        )
    )


TCP_NETWORKS = ("socket", "fastsocket")


def is_rdma(network: str | None) -> bool | None:
    """Whether a network name stands for RDMA; every name but the TCP ones does. ``None`` if unknown."""
    return None if not network else network.strip().lower() not in TCP_NETWORKS


def rdma_expr(column: str) -> pl.Expr:
    """:func:`is_rdma` as an expression."""
    return ~pl.col(column).str.strip_chars().str.to_lowercase().is_in(list(TCP_NETWORKS))
