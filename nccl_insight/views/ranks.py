"""Ranks compared: start-up times by phase, and figures that every rank has one of."""

import statistics
from collections.abc import Mapping

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.facts.figures.apart import figures
from nccl_insight.tables.run import Run
from nccl_insight.views.listed import LISTED
from nccl_insight.views.place import place

#: Columns of ``init_timings``, in the order of the phases.
PHASES = ("kernels_s", "alloc_s", "bootstrap_s", "allgathers_s", "topo_s", "graphs_s", "connections_s", "rest_s")


@dataclass(frozen=True)
class Init:
    """How long a rank took to initialize, in seconds, in all and by phase."""

    rank: int
    total_s: float
    phases: Mapping[str, float | None]


@dataclass(frozen=True)
class InitTimes:
    """Of ``total`` ranks the slowest; ``phases``: those that any rank has."""

    total: int
    median_s: float
    phases: frozenset[str]
    slowest: tuple[Init, ...]


@dataclass(frozen=True)
class Metric:
    """A figure by rank, with its median, the ranks apart from the others, and their hosts as far as known."""

    title: str
    values: Mapping[int, float]
    median: float
    outliers: tuple[int, ...]
    hosts: tuple[str, ...]


def init_times(run: Run) -> InitTimes | None:
    """Phases of initialization by rank, None where the log does not tell them."""
    table = (
        run.lazy("init_timings")
        .filter(pl.col("total_s").is_not_null() & pl.col("rank").is_not_null())
        .sort("total_s", "rank", descending=[True, False])
        .unique("rank", keep="first", maintain_order=True)
        .collect()
    )
    if table.is_empty():
        return None
    return InitTimes(
        total=table.height,
        median_s=statistics.median(table["total_s"].to_list()),
        phases=frozenset(p for p in PHASES if not table[p].is_null().all()),
        slowest=tuple(
            Init(row["rank"], row["total_s"], {p: row[p] for p in PHASES})
            for row in table.head(LISTED).iter_rows(named=True)
        ),
    )


def metrics(run: Run) -> tuple[Metric, ...] | None:
    """Figures that differ between ranks, those with outliers first; None where none does."""
    where = place(run)
    found = []
    for figure in figures(run):
        hosts = {where.hosts[where.node_of[r]] for r in figure.apart if r in where.node_of} if where else set()
        found.append(Metric(figure.title, figure.values, figure.median, figure.apart, tuple(sorted(hosts))))
    return tuple(found) or None
