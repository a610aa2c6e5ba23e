"""Networks and NICs: what each process chose and what each host lists."""

import polars as pl

from nccl_insight.facts.who.members import members
from nccl_insight.facts.who.transports import links, rdma_expr
from nccl_insight.tables.run import Run, fact

_COLUMNS = ("host", "pid", "network", "input_id", "line")


@fact
def process_networks(run: Run) -> pl.DataFrame:
    """Network of each process: ``host, pid, network, input_id, line`` (where it is said first).

    From "Using network", else from the process's own NET connections.
    """
    said = run.lazy("processes").filter(pl.col("network").is_not_null()).select(_COLUMNS)
    # The same choice at the line that states it, which is better evidence.
    stated = run.lazy("networks").filter(pl.col("message") == "net_using").select(_COLUMNS)
    stated = stated.unique(["host", "pid", "network"], keep="first", maintain_order=True)
    at = stated.rename({"input_id": "_input", "line": "_line"})
    said = said.join(at, on=["host", "pid", "network"], how="left", nulls_equal=True, maintain_order="left").select(
        "host", "pid", "network", input_id=pl.coalesce("_input", "input_id"), line=pl.coalesce("_line", "line")
    )
    return (
        pl.concat([said, used_networks(run).lazy()])
        .unique(["host", "pid"], keep="first", maintain_order=True)
        .collect(engine="in-memory")
    )


@fact
def used_networks(run: Run) -> pl.DataFrame:
    """Networks of each process's NET connections: ``host, pid, network, input_id, line``."""
    net = links(run).lazy().filter((pl.col("transport") == "NET") & pl.col("network").is_not_null())
    return net.select(_COLUMNS).unique(_COLUMNS[:3], keep="first", maintain_order=True).collect(engine="in-memory")


def member_networks(run: Run, networks: pl.DataFrame) -> pl.DataFrame:
    """Ranks with the network of their process: ``comm_id, rank, host, pid, network, input_id, line``."""
    ranks = members(run).select("comm_id", "rank", "host", "pid")
    return ranks.join(networks, on=["host", "pid"], how="inner", nulls_equal=True, maintain_order="left")


@fact
def nics(run: Run) -> pl.DataFrame:
    """NICs of each host: ``host, network, index, name, port, link_layer, address, speed_gbit, listed, input_id,
    line``. ``listed`` tells devices of NCCL's one-line list from those that have a line of their own only.

    Unique by name and port; virtual functions and every process's repetition are folded.
    """
    # A virtual device is made of ports that are listed too.
    frame = run.table("net_devices").filter(pl.col("message").ne_missing("net_ib_virtual"))
    speed = pl.coalesce(pl.col("speed_gbit").cast(pl.Int64), pl.col("speed_mbps") // 1000)
    listed = pl.col("name").is_not_null() & pl.col("hca_name").is_null()
    first = ("index", "link_layer", "address", "speed_gbit")
    shown = ("host", "network", "index", "name", "port", "link_layer", "address", "speed_gbit")
    # NCCL calls all but InfiniBand RoCE; cards of i40iw speak iWARP only.
    iwarp = pl.coalesce("name", "hca_name").str.starts_with("i40iw")
    layer = pl.when(iwarp).then(pl.lit("iWARP")).otherwise(pl.col("link_layer").cast(pl.String))
    return (
        frame.lazy()
        .with_columns(name=pl.coalesce("name", "hca_name"), speed_gbit=speed, link_layer=layer, listed=listed)
        .filter(pl.col("name").is_not_null())
        .group_by("host", "network", "name", "port", maintain_order=True)
        .agg(
            *(pl.col(c).drop_nulls().first() for c in first), pl.col("listed").any(), pl.col("input_id", "line").first()
        )
        .select(*shown, "listed", "input_id", "line")
        .collect(engine="in-memory")
    )


def networks_in_use(run: Run) -> tuple[str, ...]:
    """Network names that processes chose or connections use, most frequent first."""
    counted = process_networks(run).group_by("network", maintain_order=True).len()
    return tuple(counted.sort("len", descending=True, maintain_order=True).get_column("network"))


def ipoib(name: str | None) -> bool:
    """Whether an interface name is the usual one of IP over InfiniBand (ib0, ibs108, ibp12s0)."""
    return bool(name) and str(name).lower().startswith("ib")


@fact
def socket_processes(run: Run) -> pl.DataFrame:
    """Processes whose network is TCP: ``host, pid, network, input_id, line``.

    NCCL sets up its socket network only after all others failed or were ruled out, so its list of
    interfaces alone is enough where the choice itself is not in the log.
    """
    chosen = pl.concat([process_networks(run), used_networks(run)])
    listed = (
        run.table("net_devices")
        .select(_COLUMNS)
        .filter(~rdma_expr("network"))
        .unique(["host", "pid"], keep="first", maintain_order=True)
        .join(chosen.select("host", "pid"), on=["host", "pid"], how="anti", nulls_equal=True)
    )
    tcp = chosen.filter(~rdma_expr("network")).unique(["host", "pid"], keep="first", maintain_order=True)
    return pl.concat([tcp, listed])
