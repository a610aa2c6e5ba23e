"""Copies that a capture measured: between host and GPU, and between the GPUs of a node."""

from typing import Final

import polars as pl

from nccl_insight.tables.run import Run

#: Below this share of the median of its kind a copy is odd; there have to be at least three of a kind.
ODD_SHARE: Final = 0.7
_LEAST: Final = 3


def host_copies(run: Run) -> pl.DataFrame:
    """Pinned copies: ``host``, ``rank``, ``direction``, ``gbps`` (GB/s, 1e9), ``typical`` of its kind, ``odd``."""
    table = run.table("host_bandwidth")
    return _judged(table.filter(pl.col("pinned") & pl.col("gbps").is_finite()), ["host", "direction"])


def peer_copies(run: Run) -> pl.DataFrame:
    """Pairs of GPUs: ``host``, ``src``, ``dst``, ``gbps`` (GB/s, 1e9), ``typical`` of the node, ``odd``."""
    return _judged(run.table("peer_bandwidth").filter(pl.col("gbps").is_finite()), ["host", "peer_access"])


def _judged(rows: pl.DataFrame, kind: list[str]) -> pl.DataFrame:
    usual = rows.with_columns(pl.col("gbps").median().over(kind).alias("typical"), pl.len().over(kind).alias("n"))
    return usual.with_columns(odd=(pl.col("n") >= _LEAST) & (pl.col("gbps") < ODD_SHARE * pl.col("typical"))).drop("n")


def reach(rows: pl.DataFrame) -> tuple[float, float]:
    """The slowest and the fastest copy, GB/s."""
    rates = rows["gbps"].to_list()
    return min(rates), max(rates)
