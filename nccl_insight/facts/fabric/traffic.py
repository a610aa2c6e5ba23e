"""Where rings cross nodes, and how the traffic between nodes spreads over NICs and GPUs."""

import polars as pl

from nccl_insight.facts.who.transports import net_links
from nccl_insight.loading.assemble.places import ends_placed
from nccl_insight.tables.run import Run, fact


@fact
def nic_load(run: Run) -> pl.DataFrame:
    """Sending RDMA connections by NIC: ``host, network, net_dev, ranks`` (list), ``sharers, channels, input_id, line``.

    ``host`` is that of the sender. ``sharers`` counts the groups of ranks that use the NIC for channels of
    their own in one communicator (ring and tree of a channel may leave by two ranks of one group).
    Connections of send/recv (connection index above 0) and connections that go through another rank's NIC
    (PXN) are left out: those NICs belong to their own GPU.
    """
    return (
        net_links(run)
        .lazy()
        .drop_nulls(["net_dev", "src_rank"])
        .filter("rdma", pl.col("direction") == "send", pl.col("pxn_rank").is_null())
        .filter(pl.col("conn_index").fill_null(0) == 0)
        .group_by(pl.col("local_host").alias("host"), "network", "net_dev", "comm_id", "channel", maintain_order=True)
        .agg(pl.col("src_rank").unique().sort().alias("ranks"), pl.col("input_id", "line").first())
        .group_by("host", "network", "net_dev", "comm_id", maintain_order=True)
        .agg(
            pl.col("ranks").explode().unique().sort(),
            pl.col("ranks").n_unique().alias("sharers"),
            pl.len().alias("channels"),
            pl.col("input_id", "line").first(),
        )
        .group_by("host", "network", "net_dev", maintain_order=True)
        .agg(
            pl.col("ranks").sort_by("sharers", descending=True).first(),
            pl.col("sharers").max(),
            pl.col("channels").max(),
            pl.col("input_id", "line").first(),
        )
        .collect(engine="in-memory")
    )


@fact
def ring_hops(run: Run) -> pl.DataFrame:
    """Hops of the rings whose ranks are all known, the way back to the first rank included.

    ``comm_id, channel, src_rank, dst_rank, src_host, dst_host, crosses, input_id, line``. Rings that the log
    cuts short are taken from what each rank printed of its neighbours, or left out.
    """
    keys = ["comm_id", "channel"]
    printed = (
        run.lazy("rings")
        .filter(pl.col("comm_id").is_not_null() & ~pl.col("truncated").fill_null(False))
        .unique([*keys, "position"], keep="first", maintain_order=True)
        .sort(*keys, "position", maintain_order=True)
        .with_columns(dst_rank=pl.coalesce(pl.col("rank").shift(-1).over(keys), pl.col("rank").first().over(keys)))
        .select(*keys, pl.col("rank").alias("src_rank"), "dst_rank", "input_id", "line")
    )
    neighbours = (
        run.lazy("ring_neighbours")
        .filter(pl.col("comm_id").is_not_null())
        .join(printed.select(keys).unique(), on=keys, how="anti")
        .select(*keys, pl.col("rank").alias("src_rank"), pl.col("next_rank").alias("dst_rank"), "input_id", "line")
        .unique([*keys, "src_rank"], keep="first", maintain_order=True)
    )
    hops = ends_placed(run, pl.concat([printed, neighbours]).collect(engine="in-memory"))
    hops = hops.with_columns(crosses=pl.col("src_host") != pl.col("dst_host"))
    sizes = run.table("communicators").select("comm_id", "nranks").unique("comm_id", keep="first")
    whole = (
        hops.group_by(keys)
        .agg(hops=pl.len(), unknown=pl.col("crosses").null_count())
        .join(sizes, on="comm_id", how="inner")
        .filter((pl.col("hops") == pl.col("nranks")) & (pl.col("unknown") == 0))
    )
    return hops.join(whole.select(keys), on=keys, how="semi", maintain_order="left")


@fact
def ring_crossings(run: Run) -> pl.DataFrame:
    """Crossings of node borders by ring: ``comm_id, channel, crossings, hosts, input_id, line``.

    ``hosts`` is how many hosts the ring visits; a good ring leaves each of them once.
    """
    return (
        ring_hops(run)
        .group_by("comm_id", "channel", maintain_order=True)
        .agg(
            pl.col("crosses").sum().alias("crossings"),
            pl.col("src_host").n_unique().alias("hosts"),
            pl.col("input_id", "line").first(),
        )
    )
