"""Figures that every rank has one of, and which ranks stand apart."""

import statistics
from collections.abc import Mapping
from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.tables.run import Run, fact

_DEVIATIONS: Final = 5.0
_VARIES: Final = 0.01


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
    timings = (
        run.lazy("init_timings").group_by("rank").agg(pl.col("total_s", "bootstrap_s", "topo_s", "connections_s").max())
    )
    counts = run.lazy("channel_counts").group_by("rank").agg(pl.col("coll_channels", "p2p_channels").max())
    steps = (
        run.lazy("steps")
        .group_by("rank")
        .agg((pl.col("duration_ns", "exposed_comm_ns", "compute_ns").mean() / 1e6).round(4))
    )
    traffic = (
        run.lazy("collectives")
        .filter(pl.col("op").cast(pl.String) == "AllReduce")
        .group_by("rank")
        .agg(pl.col("busbw_gbps").median())
    )
    titles = (
        (
            timings,
            {
                "total_s": "initialization, s",
                "bootstrap_s": "bootstrap, s",
                "topo_s": "topology search, s",
                "connections_s": "connecting, s",
            },
        ),
        (counts, {"coll_channels": "collective channels", "p2p_channels": "p2p channels"}),
        (
            steps,
            {
                "duration_ns": "mean step, ms",
                "exposed_comm_ns": "exposed communication per step, ms",
                "compute_ns": "computation per step, ms",
            },
        ),
        (traffic, {"busbw_gbps": "median AllReduce busbw, GB/s"}),
    )
    for frame, columns in titles:
        table = frame.drop_nulls("rank").sort("rank").collect(engine="in-memory")
        for column, title in columns.items():
            pairs = zip(table["rank"].to_list(), table[column].to_list(), strict=True)
            values = {int(r): float(v) for r, v in pairs if v is not None}
            if len(values) >= 2:
                found[title] = values
    return found


def apart(values: Mapping[int, float]) -> tuple[float, list[int]]:
    """Median, and the ranks further from it than five robust spreads (1.4826 times the median deviation) and 10%."""
    middle = statistics.median(values.values())
    spread = 1.4826 * statistics.median([abs(v - middle) for v in values.values()])
    limit = max(_DEVIATIONS * spread, 0.1 * abs(middle), 1e-9)
    return middle, sorted(r for r, v in values.items() if abs(v - middle) > limit)
