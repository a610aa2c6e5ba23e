"""Who waits in which process group, and what the collectives of traces take."""

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.facts import waiting as facts
from nccl_insight.tables.run import Run


@dataclass(frozen=True)
class GroupWaits:
    """Waiting in a process group: of the rank that waits most, and of the one that waits least."""

    process_group: str | None
    ranks: int
    most_rank: int
    most_ns: int
    collectives: int
    least_rank: int
    least_ns: int
    least_last: int


@dataclass(frozen=True)
class RankWaits:
    """Waiting of a rank over all its groups; ``for_ns``: what the others wait for it."""

    rank: int
    for_ns: int
    wait_ns: int
    collectives: int
    worst_ns: int
    times_last: int
    times_first: int


@dataclass(frozen=True)
class Waiting:
    """Groups, the most waiting first, and ranks, the one that others wait for most first."""

    groups: tuple[GroupWaits, ...]
    ranks: tuple[RankWaits, ...]


@dataclass(frozen=True)
class Statistics:
    """A row of the table ``collective_statistics``."""

    op: str | None
    size_bytes: int | None
    group_size: int | None
    process_group: str | None
    count: int
    median_ns: float
    median_busbw_gbps: float | None


def waiting(run: Run) -> Waiting | None:
    """The waiting of ranks, None where nobody waits."""
    table = run.table("waits")
    found = []
    groups = (
        table.group_by("process_group")
        .agg(pl.col("wait_ns").sum())
        .sort("wait_ns", "process_group", descending=[True, False], nulls_last=True)
    )
    for group in groups["process_group"].to_list():
        rows = table.filter(pl.col("process_group").eq_missing(group)).sort("wait_ns", "rank")
        least, most = rows.row(0, named=True), rows.row(-1, named=True)
        if most["wait_ns"]:
            found.append(
                GroupWaits(
                    group, rows.height, most["rank"], most["wait_ns"], most["collectives"],
                    least["rank"], least["wait_ns"], least["times_last"],
                )
            )  # fmt: skip
    return Waiting(tuple(found), _ranks(run)) if found else None


def _ranks(run: Run) -> tuple[RankWaits, ...]:
    found = facts.waiting(run)
    late = found.for_rank if found else {}
    rows = run.table("waits").group_by("rank").agg(
        pl.col("wait_ns", "collectives").sum(), pl.col("worst_wait_ns").max().fill_null(0),
        pl.col("times_last", "times_first").sum(),
    )  # fmt: skip
    rows_of = [RankWaits(rank, late.get(rank) or 0, *rest) for rank, *rest in rows.iter_rows()]
    return tuple(sorted(rows_of, key=lambda r: (-r.for_ns, r.rank)))


def statistics(run: Run) -> tuple[Statistics, ...]:
    """The collectives by operation and size, those that take most first."""
    columns = ("op", "size_bytes", "group_size", "process_group", "count", "median_ns", "median_busbw_gbps")
    return tuple(Statistics(*row) for row in run.table("collective_statistics").select(columns).iter_rows())
