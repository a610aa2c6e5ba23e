"""A collective takes less time with more bytes: sizes below the curve's own envelope."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from nccl_insight.model import CannotJudge, Hit, Ref
from nccl_insight.rules.context import Context
from nccl_insight.units import format_bytes, format_ns

_RUN = ("input_id", "run", "op", "nranks", "dtype")


def check(ctx: Context) -> Iterator[Hit | CannotJudge]:
    """One finding per sweep: its deepest dip."""
    rows = ctx.run.table("benchmarks").filter(
        (pl.col("size_bytes") > 0) & (pl.col("time_us") >= ctx["least_us"])
    )
    if rows.is_empty():
        return
    # Measured twice: the slower of a larger size still beats the faster of a smaller one.
    sizes = rows.group_by(*_RUN, "size_bytes").agg(
        pl.col("time_us").min().alias("best_us"), pl.col("time_us").max().alias("worst_us"), pl.len(),
        pl.col("line").min(),
    )  # fmt: skip
    sizes = sizes.filter(pl.col("len") > 1).sort("size_bytes")
    for sweep in sizes.partition_by(_RUN, maintain_order=True):
        later = sweep["worst_us"].reverse().cum_min().reverse().shift(-1)
        dips = sweep.with_columns(_later=later).filter(pl.col("best_us") > ctx["ratio"] * pl.col("_later"))
        if dips.height:
            yield _hit(
                sweep,
                dips.sort(pl.col("best_us") / pl.col("_later")).row(-1, named=True),
                dips["size_bytes"].to_list(),
            )


def _hit(sweep: pl.DataFrame, worst: dict[str, Any], slow: list[int]) -> Hit:
    faster = sweep.filter(
        (pl.col("size_bytes") > worst["size_bytes"]) & (pl.col("worst_us") == worst["_later"])
    )
    other = faster.row(0, named=True)
    small, large = format_bytes(worst["size_bytes"]), format_bytes(other["size_bytes"])
    times = f"{format_ns(worst['best_us'] * 1e3)}, {large} only {format_ns(other['worst_us'] * 1e3)}"
    where = small if len(slow) == 1 else f"{format_bytes(slow[0])} to {format_bytes(slow[-1])}"
    op = worst["op"] or "A collective"
    return Hit(
        title=f"{op} dips at {where}: {small} take {times}",
        explanation="More bytes in less time: at these sizes NCCL takes an algorithm or protocol that is slower than "
        "the one that it takes right above, or a channel count that does not fit.",
        observed=f"{worst['best_us'] / other['worst_us']:.1f} times the time of {large}",
        expected="time that grows with the size",
        next_step="NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING <the same test> 2>&1 | grep -E 'Algo|proto'   # what NCCL "
        "takes below and above; then the same sizes with NCCL_PROTO=Simple, then with NCCL_ALGO=Ring: the one that is "
        "faster is what its model misjudges",
        evidence=(
            Ref(int(worst["input_id"]), int(worst["line"] or 0)),
            Ref(int(worst["input_id"]), int(other["line"] or 0)),
        ),
    )
