"""What nccl-tests or a capture measured, in sentences: collectives by operation, copies by kind."""

from typing import Any, Final

import polars as pl

from nccl_insight.base.units import format_bytes, format_span_gbps, listed, plural
from nccl_insight.facts.fabric.health import fabric_health
from nccl_insight.facts.lateness.copies import host_copies, peer_copies, reach
from nccl_insight.tables.run import Run

_MOST: Final = 8
_NAMED: Final = 3


def _bandwidth(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f} GB/s" if value < 10 else f"{value:.0f} GB/s"


def _of_expected(row: dict[str, Any]) -> str:
    measured, wanted = row["busbw_gbps"], row["expected_gbps"]
    if not measured or not wanted:
        return ""
    low, high = row["expected_low_gbps"], row["expected_high_gbps"]
    place = "below" if measured < low else "above" if measured > high else "within"
    band = f"{_bandwidth(low).removesuffix(' GB/s')} to {_bandwidth(high)}"
    share = f"{measured / wanted:.0%} of the expected {_bandwidth(wanted)}"
    return f", {share}, {place} the band of {band} ({row['expected_from']})"


def measured_sentences(run: Run) -> list[str]:
    """``Measured AllReduce on 4 ranks, 8 B to 8.0 MiB: busbw 0.44 GB/s at the largest size``; wrong results said."""
    if run.table("benchmarks")["size_bytes"].drop_nulls().is_empty():
        return []
    from nccl_insight.facts.figures.expected import efficiency

    kinds = (
        efficiency(run)
        .drop_nulls("size_bytes")
        .sort("size_bytes", "busbw_gbps", nulls_last=False)
        .group_by("op", "nranks", maintain_order=True)
        .agg(
            pl.col("size_bytes").min().alias("least"),
            pl.col("size_bytes").max().alias("most"),
            pl.col("busbw_gbps").last(),
            pl.col("wrong").sum(),
            pl.col("expected_gbps", "expected_low_gbps", "expected_high_gbps", "expected_from").last(),
            pl.col("gpu", "n_gpus").drop_nulls().last(),
        )
        .sort(pl.col("op").cast(pl.String), "nranks")
    )
    sentences: list[str] = []
    for row in kinds.head(_MOST).iter_rows(named=True):
        ranks = f" on {plural(row['nranks'], 'rank')}" if row["nranks"] else ""
        ranks += f" ({row['n_gpus']} x {row['gpu']})" if row["gpu"] and row["n_gpus"] else ""
        alone = row["nranks"] == 1 and not row["busbw_gbps"]
        rate = (
            "one rank has no bus bandwidth" if alone else f"busbw {_bandwidth(row['busbw_gbps'])} at the largest size"
        )
        sizes = f"{format_bytes(row['least'])} to {format_bytes(row['most'])}"
        text = f"Measured {row['op'] or 'a collective'}{ranks}, {sizes}: {rate}"
        wrong = f"; {row['wrong']:,} wrong values" if row["wrong"] else ""
        sentences.append(f"{text}{_of_expected(row)}{wrong}")
    if kinds.height > _MOST:
        sentences.append(f"Measured {kinds.height - _MOST} further operations; see the table benchmarks")
    return sentences


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
        sentences.append(f"Measured copies between {count} of GPUs: {format_span_gbps(*reach(pairs))}{_named(odd)}")
    return sentences


def _named(odd: list[str]) -> str:
    if not odd:
        return ""
    return f"; far below the others of their node: {listed(odd, _NAMED)}"


def fabric_sentences(run: Run) -> list[str]:
    """What the health masks of a paste say that shows no communicator, whose reader asks what they mean."""
    if run.has("communicators"):
        return []
    return [
        f"NVLink fabric health mask {found.mask} of {plural(found.gpus, 'GPU')}: {', '.join(found.good)}"
        for found in fabric_health(run)
        if found.good and not found.bad
    ]
