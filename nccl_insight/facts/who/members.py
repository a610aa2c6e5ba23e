"""Who takes part: ranks with their hosts and processes, communicators, the main one."""

from collections.abc import Iterable

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Ref
from nccl_insight.facts.said.topics import plays
from nccl_insight.loading.assemble.places import rank_in_job
from nccl_insight.tables.run import Run, fact

_VERSION = r"([0-9]+\.[0-9]+(?:\.[0-9]+)?)"


@fact
def members(run: Run) -> pl.DataFrame:
    """Ranks of communicators with what is known of their process; one row for (comm_id, rank, host, pid).

    Columns: ``comm_id, rank, host, pid, nranks, n_nodes, local_ranks, cuda_dev, bus_id, init_complete, nccl_version``
    (digits only), ``nccl_version_full, cuda_version, driver_version, network, library, input_id, line``.
    """
    size = ("nranks", "n_nodes", "local_ranks", "cuda_dev", "bus_id", "init_complete")
    ranks = run.table("ranks").select("comm_id", "rank", "host", "pid", *size, "input_id", "line")
    return ranks.join(processes(run), on=["host", "pid"], how="left", nulls_equal=True)


@fact
def processes(run: Run) -> pl.DataFrame:
    """One row a (host, pid): ``host, pid, nccl_version`` (digits), ``nccl_version_full, cuda_version,
    driver_version, network, library``."""
    version = pl.col("nccl_version").drop_nulls().first().alias("nccl_version_full")
    digits = pl.col("nccl_version").str.extract(_VERSION).drop_nulls().first()
    more = pl.col("cuda_version", "driver_version", "network", "library").drop_nulls().first()
    return run.table("processes").group_by("host", "pid", maintain_order=True).agg(digits, version, more)


@fact
def begun(run: Run) -> pl.DataFrame:
    """Processes whose beginning is in the log, as ``host, pid``: what they print first of all is there. What another
    process does not say may stand before the log's first line."""
    rows = run.table("processes").filter(pl.any_horizontal(pl.col("nccl_version", "driver_version").is_not_null()))
    named = run.table("interfaces")
    using = named.filter(plays(named, "own-interface"))
    listed = run.table("net_devices")
    return pl.concat([part.select("host", "pid") for part in (rows, using, listed)]).unique()


def completed(run: Run) -> pl.DataFrame:
    """Rows of ``ranks`` whose init completed."""
    return run.table("ranks").filter(pl.col("init_complete"))


@dataclass(frozen=True)
class Comm:
    """A communicator as rules see it. ``nodes`` is what NCCL says (MNNVL joins hosts into one node)."""

    comm_id: str | None
    nranks: int
    ranks_seen: int
    hosts: tuple[str, ...]
    nodes: int | None
    made: bool
    missing: tuple[int, ...]
    init_complete: bool
    input_id: int
    line: int

    @property
    def spans_hosts(self) -> bool:
        """Whether ranks on more than one host, or more than one node, are known to take part."""
        return len(self.hosts) > 1 or bool(self.nodes and self.nodes > 1 and self.ranks_seen < self.nranks)

    @property
    def single_node(self) -> bool:
        """Whether all ranks are known to share one host (or one NVLink domain)."""
        if self.nodes == 1:
            return True
        return len(self.hosts) == 1 and self.ranks_seen >= self.nranks > 0


@fact
def comms(run: Run) -> tuple[Comm, ...]:
    """All communicators in order of appearance."""
    return tuple(
        Comm(
            comm_id=row["comm_id"],
            nranks=row["nranks"] or 0,
            ranks_seen=row["ranks_seen"] or 0,
            hosts=tuple(sorted({h for h in row["hosts"] or () if h})),
            nodes=row["n_nodes"],
            made=bool(row["comm_id_made"]),
            missing=tuple(row["missing_ranks"] or ()),
            init_complete=bool(row["init_complete"]),
            input_id=row["input_id"] or 0,
            line=row["line"] or 0,
        )
        for row in run.table("communicators").iter_rows(named=True)
    )


def main_comm(run: Run) -> Comm | None:
    """The communicator with most ranks, the first of them; ``None`` when the run has none."""
    return max(comms(run), key=lambda c: c.nranks, default=None)


@dataclass(frozen=True)
class Joining:
    """A rank of the job in the init of a communicator of ``nranks``, to which only ``came`` came by the log."""

    nranks: int
    came: int
    line: Ref


def joining(run: Run, ranks: Iterable[int]) -> dict[int, Joining]:
    """Of these ranks of the job those whose last init is of a communicator that nobody finished and not all began."""
    rows = run.table("ranks").filter(pl.col("comm_id").is_not_null() & pl.col("init_started"))
    came, over = pl.col("rank").n_unique(), pl.col("init_complete").fill_null(False).any()
    rows = rows.with_columns(came=came.over("comm_id"), over=over.over("comm_id")).sort("line")
    rows = rows.group_by("host", "pid", maintain_order=True).last()
    stuck = rows.filter(~pl.col("over") & (pl.col("came") < pl.col("nranks")))
    cells = stuck.select("comm_id", "rank", "nranks", "came", "input_id", "line").iter_rows()
    found = {
        rank_in_job(run, comm, rank): Joining(nranks, n, Ref(input_id, line))
        for comm, rank, nranks, n, input_id, line in cells
    }
    return {rank: found[rank] for rank in ranks if rank in found}


def unambiguous(run: Run, frame: pl.DataFrame) -> pl.DataFrame:
    """Rows whose ``comm_id`` stands for one communicator.

    NCCL 2.21 and 2.22 give splits of one parent with equal colour the same id; their sizes tell them apart.
    """
    twice = (
        run.table("ranks")
        .filter(pl.col("nranks").is_not_null() & pl.col("comm_id").is_not_null())
        .group_by("comm_id")
        .agg(sizes=pl.col("nranks").n_unique())
        .filter(pl.col("sizes") > 1)
    )
    return frame if twice.is_empty() else frame.join(twice, on="comm_id", how="anti", maintain_order="left")
