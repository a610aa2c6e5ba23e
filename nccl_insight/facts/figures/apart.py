"""Figures that every rank has one of, and which ranks stand apart."""

import statistics
from collections.abc import Mapping
from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.tables.run import Run, fact

_DEVIATIONS: Final = 5.0
_VARIES: Final = 0.01
_OF_ALL_REDUCES: Final = pl.col("busbw_gbps").filter(pl.col("op").cast(pl.String) == "AllReduce")
_FIGURES: Final[Mapping[str, Mapping[str, pl.Expr]]] = {
    "init_timings": {
        "initialization, s": pl.col("total_s").max(),
        "bootstrap, s": pl.col("bootstrap_s").max(),
        "topology search, s": pl.col("topo_s").max(),
        "connecting, s": pl.col("connections_s").max(),
    },
    "channel_counts": {
        "collective channels": pl.col("coll_channels").max(),
        "p2p channels": pl.col("p2p_channels").max(),
    },
    "steps": {
        "mean step, ms": (pl.col("duration_ns").mean() / 1e6).round(4),
        "exposed communication per step, ms": (pl.col("exposed_comm_ns").mean() / 1e6).round(4),
        "computation per step, ms": (pl.col("compute_ns").mean() / 1e6).round(4),
    },
    "collectives": {"median AllReduce busbw, GB/s": _OF_ALL_REDUCES.median()},
}


@dataclass(frozen=True)
class Figure:
    """A figure by rank that differs between ranks, its median, and the ranks that stand apart (:func:`apart`)."""

    title: str
    values: Mapping[int, float]
    median: float
    apart: tuple[int, ...]


@fact
def figures(run: Run) -> tuple[Figure, ...]:
    """Figures that differ by more than a hundredth of their median, those with ranks that stand apart first."""
    found = []
    for title, values in rank_metrics(run).items():
        middle, odd = apart(values)
        if max(values.values()) - min(values.values()) > _VARIES * abs(middle):
            found.append(Figure(title, values, middle, tuple(odd)))
    return tuple(sorted(found, key=lambda figure: not figure.apart))


def rank_metrics(run: Run) -> dict[str, dict[int, float]]:
    """Figures that every rank has one of, by name: start-up, channels, communication."""
    found: dict[str, dict[int, float]] = {}
    for table, exprs in _FIGURES.items():
        named = (expr.alias(title) for title, expr in exprs.items())
        rows = run.lazy(table).drop_nulls("rank").group_by("rank").agg(named).sort("rank").collect(engine="in-memory")
        for title in exprs:
            values = {int(r): float(v) for r, v in rows.select("rank", title).iter_rows() if v is not None}
            if len(values) >= 2:
                found[title] = values
    return found


def apart(values: Mapping[int, float]) -> tuple[float, list[int]]:
    """Median, and the ranks further from it than five robust spreads (1.4826 times the median deviation) and 10%."""
    middle = statistics.median(values.values())
    spread = 1.4826 * statistics.median([abs(v - middle) for v in values.values()])
    limit = max(_DEVIATIONS * spread, 0.1 * abs(middle), 1e-9)
    return middle, sorted(r for r, v in values.items() if abs(v - middle) > limit)
