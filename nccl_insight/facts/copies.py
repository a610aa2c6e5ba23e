"""Copies that a capture measured: between host and GPU, and between the GPUs of a node."""

from __future__ import annotations

from typing import Final

import polars as pl

from nccl_insight.tables.run import Run
from nccl_insight.units import format_span_gbps, plural

#: Below this share of the median of its kind a copy is odd; there have to be at least three of a kind.
ODD_SHARE: Final = 0.7
_LEAST: Final = 3
_NAMED: Final = 3


def host_copies(run: Run) -> pl.DataFrame:
    """Pinned copies: ``host``, ``rank``, ``direction``, ``gbps`` (GB/s, 1e9), ``typical`` of its kind, ``odd``."""
    table = run.table("host_bandwidth")
    if table.is_empty():
        return pl.DataFrame()
    return _judged(table.filter(pl.col("pinned") & pl.col("gbps").is_finite()), ["host", "direction"])


def peer_copies(run: Run) -> pl.DataFrame:
    """Pairs of GPUs: ``host``, ``src``, ``dst``, ``gbps`` (GB/s, 1e9), ``typical`` of the node, ``odd``."""
    table = run.table("peer_bandwidth")
    if table.is_empty():
        return pl.DataFrame()
    return _judged(table.filter(pl.col("gbps").is_finite()), ["host", "peer_access"])


def _judged(rows: pl.DataFrame, kind: list[str]) -> pl.DataFrame:
    usual = rows.with_columns(
        pl.col("gbps").median().over(kind).alias("typical"), pl.len().over(kind).alias("n")
    )
    return usual.with_columns(
        ((pl.col("n") >= _LEAST) & (pl.col("gbps") < ODD_SHARE * pl.col("typical"))).alias("odd")
    ).drop("n")


def reach(rows: pl.DataFrame) -> tuple[float, float]:
    """The slowest and the fastest copy, GB/s."""
    rates = rows["gbps"].to_list()
    return min(rates), max(rates)


def copy_sentences(run: Run) -> list[str]:
    """What the copies reached, and which are far below the others of their node."""
    sentences = []
    rows = host_copies(run)
    if rows.height:
        kinds = rows.group_by("direction", maintain_order=True)
        parts = [f"{name} {format_span_gbps(*reach(part))}" for (name,), part in kinds]
        slow = rows.filter("odd").select("rank", "direction", "gbps")
        odd = [f"rank {rank} {way} {gbps:.1f} GB/s" for rank, way, gbps in slow.iter_rows()]
        gpus = plural(rows.select("host", "rank").n_unique(), "GPU")
        sentences.append(f"Measured copies of pinned host memory on {gpus}: {', '.join(parts)}{_named(odd)}")
    pairs = peer_copies(run)
    if pairs.height:
        slow = pairs.filter("odd").sort("gbps").select("src", "dst", "gbps")
        odd = [f"GPU {src} to {dst} {gbps:.1f} GB/s" for src, dst, gbps in slow.iter_rows()]
        count = plural(pairs.height, "pair")
        sentences.append(
            f"Measured copies between {count} of GPUs: {format_span_gbps(*reach(pairs))}{_named(odd)}"
        )
    return sentences


def _named(odd: list[str]) -> str:
    if not odd:
        return ""
    more = f" and {len(odd) - _NAMED} more" if len(odd) > _NAMED else ""
    return f"; far below the others of their node: {', '.join(odd[:_NAMED])}{more}"
