"""Who sits where: nodes of ranks, colors of transports, findings by host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from nccl_insight.facts.members import main_comm, rank_hosts
from nccl_insight.facts.transports import is_rdma, pairs
from nccl_insight.model import Analysis, Severity
from nccl_insight.report.figures.base import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY
from nccl_insight.tables.run import Run


@dataclass(frozen=True)
class Kind:
    """A way for two ranks to talk, as figures show it: color, dash and letter differ together."""

    key: str
    name: str
    color: str
    dash: str
    letter: str


KINDS: Final = (
    Kind("p2p", "P2P (GPU memory)", BLUE, "solid", "P"),
    Kind("p2p_via", "P2P through a third GPU", SKY, "dashdot", "V"),
    Kind("shm", "SHM (host memory)", ORANGE, "dot", "H"),
    Kind("gdr", "NET with GPUDirect RDMA", GREEN, "solid", "G"),
    Kind("rdma", "NET, RDMA through host memory", PURPLE, "dash", "N"),
    Kind("socket", "NET over TCP sockets", RED, "longdash", "S"),
    Kind("other", "other", GREY, "dot", "?"),
)
KIND: Final = {kind.key: kind for kind in KINDS}
# From what hurts most to what hurts least: the kind that stands for several connections of one pair.
WORST: Final = ("socket", "rdma", "shm", "p2p_via", "other", "gdr", "p2p")


def kind_of(transport: str | None, network: str | None, gdr: bool | None, method: str | None) -> str:
    """Key of :data:`KINDS` for a connection."""
    if transport == "P2P":
        return "p2p_via" if method and "indirect" in method.lower() else "p2p"
    if transport == "SHM":
        return "shm"
    if transport in ("NET", "COLLNET"):
        if is_rdma(network) is False:
            return "socket"
        return "gdr" if gdr else "rdma"
    return "other"


def rank_pairs(run: Run) -> pl.DataFrame:
    """Pairs of ranks of the largest communicator: ``src_rank, dst_rank, kind, detail, n_channels``.

    One row a pair, the worst kind standing for it; ``detail`` names all.
    """
    return run.memo("render.rank_pairs", _rank_pairs)


def _rank_pairs(run: Run) -> pl.DataFrame:
    schema = {
        "src_rank": pl.Int32,
        "dst_rank": pl.Int32,
        "kind": pl.String,
        "detail": pl.String,
        "n_channels": pl.UInt32,
    }
    comm = main_comm(run)
    table = pairs(run)
    if comm is not None:
        table = table.filter(pl.col("comm_id").eq_missing(pl.lit(comm.comm_id, dtype=pl.String)))
    table = table.drop_nulls(["src_rank", "dst_rank"])
    if table.is_empty():
        return pl.DataFrame(schema=schema)
    combos = table.select("transport", "network", "gdr", "method").unique()
    kinds = combos.with_columns(
        pl.Series("kind", [kind_of(*row) for row in combos.iter_rows()], dtype=pl.String)
    )
    order = {key: n for n, key in enumerate(WORST)}
    named = table.join(kinds, on=["transport", "network", "gdr", "method"], how="left", nulls_equal=True)
    text = pl.concat_str(
        [pl.col("transport").fill_null("?"), pl.coalesce("network", "method").fill_null("")], separator=" "
    )
    return (
        named.with_columns(
            pl.col("kind").replace_strict(order, return_dtype=pl.Int32).alias("rank_of_kind"),
            text.alias("detail"),
        )
        .sort("src_rank", "dst_rank", "rank_of_kind", maintain_order=True)
        .group_by("src_rank", "dst_rank", maintain_order=True)
        .agg(
            pl.col("kind").first(),
            pl.col("detail").str.strip_chars().unique(maintain_order=True).str.join(", "),
            pl.col("n_channels").sum(),
        )
    )


@dataclass(frozen=True)
class Place:
    """Ranks of the largest communicator by node."""

    hosts: tuple[str, ...]
    node_of: dict[int, int]
    ranks_of: tuple[tuple[int, ...], ...]

    @property
    def nranks(self) -> int:
        """Ranks with a known host."""
        return len(self.node_of)


def place(run: Run) -> Place | None:
    """Hosts in the order of their lowest rank; ``None`` when no rank has a known host."""
    return run.memo("render.place", _place)


def _place(run: Run) -> Place | None:
    comm = main_comm(run)
    table = rank_hosts(run)
    if comm is not None:
        table = table.filter(pl.col("comm_id").eq_missing(pl.lit(comm.comm_id, dtype=pl.String)))
    groups = (
        table.group_by("host")
        .agg(pl.col("rank").unique().sort())
        .with_columns(pl.col("rank").list.min().alias("lowest"))
        .sort("lowest")
    )
    if groups.is_empty():
        return None
    hosts = tuple(str(h) for h in groups.get_column("host"))
    ranks = tuple(tuple(r) for r in groups.get_column("rank").to_list())
    node_of = {rank: node for node, members in enumerate(ranks) for rank in members}
    return Place(hosts, node_of, ranks)


def of_main(run: Run, name: str) -> pl.DataFrame:
    """Rows of a table that belong to the largest communicator."""
    comm = main_comm(run)
    table = run.table(name)
    if comm is None:
        return table
    return table.filter(pl.col("comm_id").eq_missing(pl.lit(comm.comm_id, dtype=pl.String)))


def crosses(where: Place, a: int, b: int) -> bool:
    """Whether two ranks are known to be on different nodes."""
    here, there = where.node_of.get(a), where.node_of.get(b)
    return here is not None and there is not None and here != there


def named_ranks(analysis: Analysis) -> frozenset[int]:
    """Ranks that figures mark: named by a warning or an error that does not name most of the job."""
    half = max(1, (analysis.job.nranks or 2) // 2)
    return frozenset(
        rank
        for finding in analysis.findings
        if finding.severity is not Severity.INFO and len(finding.ranks) <= half
        for rank in finding.ranks
    )


def trouble(analysis: Analysis) -> tuple[dict[str, Severity], dict[int, Severity]]:
    """The worst severity of the loud findings that name each host and each rank.

    Findings that name most of the job's ranks or hosts say nothing about one of them and are left out.
    """
    hosts: dict[str, Severity] = {}
    ranks: dict[int, Severity] = {}
    job = analysis.job
    for finding in analysis.findings:
        if finding.severity is Severity.INFO or finding.finding_class.value == "S":
            continue
        if len(finding.ranks) <= max(1, (job.nranks or 0) // 2):
            for rank in finding.ranks:
                ranks[rank] = min(ranks.get(rank, finding.severity), finding.severity, key=lambda s: s.order)
        if len(finding.hosts) <= max(1, (job.n_nodes or 0) // 2):
            for host in finding.hosts:
                hosts[host] = min(hosts.get(host, finding.severity), finding.severity, key=lambda s: s.order)
    return hosts, ranks
