"""Who sits where and talks over what: nodes of ranks and pairs of ranks of the largest communicator."""

from collections.abc import Mapping
from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.facts.who.members import main_comm
from nccl_insight.facts.who.transports import is_rdma, pairs
from nccl_insight.loading.assemble.places import rank_hosts
from nccl_insight.tables.run import Run, fact

#: Ways for two ranks to talk, from what hurts most to what hurts least.
KINDS: Final = ("socket", "host_rdma", "shm", "p2p_via", "other", "gdr", "p2p")


@dataclass(frozen=True)
class Place:
    """Ranks of the largest communicator by node, the hosts in the order of their lowest rank."""

    hosts: tuple[str, ...]
    node_of: Mapping[int, int]
    ranks_of: tuple[tuple[int, ...], ...]

    @property
    def nranks(self) -> int:
        """Ranks with a known host."""
        return len(self.node_of)

    def crosses(self, a: int, b: int) -> bool:
        """Whether two ranks are known to be on different nodes."""
        here, there = self.node_of.get(a), self.node_of.get(b)
        return here is not None and there is not None and here != there


@dataclass(frozen=True)
class Pair:
    """A pair of ranks: the worst of its ways (of :data:`KINDS`), all of them as printed, and its channels."""

    src: int
    dst: int
    kind: str
    detail: str
    n_channels: int


@fact
def place(run: Run) -> Place | None:
    """The nodes; ``None`` when no rank has a known host."""
    groups = (
        in_main(run, rank_hosts(run))
        .group_by("host")
        .agg(pl.col("rank").unique().sort())
        .with_columns(lowest=pl.col("rank").list.min())
        .sort("lowest", "host")
    )
    if groups.is_empty():
        return None
    hosts = tuple(str(h) for h in groups.get_column("host"))
    ranks = tuple(tuple(r) for r in groups.get_column("rank").to_list())
    return Place(hosts, {rank: node for node, members in enumerate(ranks) for rank in members}, ranks)


@fact
def rank_pairs(run: Run) -> tuple[Pair, ...]:
    """One for each pair that has a connection, by source and destination."""
    table = in_main(run, pairs(run)).drop_nulls(["src_rank", "dst_rank"])
    if table.is_empty():
        return ()
    ways = ["transport", "network", "gdr", "method"]
    combos = table.select(ways).unique()
    order = combos.with_columns(pl.Series("way", [KINDS.index(_kind(*row)) for row in combos.iter_rows()]))
    text = pl.concat_str(
        [pl.col("transport").fill_null("?"), pl.coalesce("network", "method").fill_null("")], separator=" "
    )
    found = (
        table.join(order, on=ways, how="left", nulls_equal=True, maintain_order="left")
        .sort("src_rank", "dst_rank", "way", maintain_order=True)
        .group_by("src_rank", "dst_rank", maintain_order=True)
        .agg(
            pl.col("way").first(),
            text.str.strip_chars().unique(maintain_order=True).str.join(", ").alias("detail"),
            pl.col("n_channels").sum(),
        )
    )
    return tuple(Pair(s, d, KINDS[way], detail, n) for s, d, way, detail, n in found.iter_rows())


def _kind(transport: str | None, network: str | None, gdr: bool | None, method: str | None) -> str:
    if transport == "P2P":
        return "p2p_via" if method and "indirect" in method.lower() else "p2p"
    if transport == "SHM":
        return "shm"
    if transport in ("NET", "COLLNET"):
        if is_rdma(network) is False:
            return "socket"
        return "gdr" if gdr else "host_rdma"
    return "other"


def in_main(run: Run, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows that belong to the largest communicator; all where no communicator is known."""
    comm = main_comm(run)
    if comm is None:
        return rows
    return rows.filter(pl.col("comm_id").eq_missing(pl.lit(comm.comm_id, dtype=pl.String)))
