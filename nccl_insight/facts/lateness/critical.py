"""Communication on the critical path by design: collectives of tensor and expert parallel groups.

The next layer computes on their result, so no bucket, prefetch or stream can hide them: only smaller groups, larger
batches or fused kernels can. They are told from gradients and shards by how they run: many per step, of few sizes, none
of them under compute, each between two pieces of compute (Shoeybi et al., "Megatron-LM", 2019: two all-reduces a
layer forward, two backward; Korthikanti et al., 2022: an all-gather and a reduce-scatter in place of each).
"""

from typing import Final

import polars as pl

from nccl_insight.base.bandwidth import BY_TOKENS
from nccl_insight.readers import intervals
from nccl_insight.tables.run import Run, fact

MOST: Final = 0.5
"""Above this share of a step a design that cannot hide its communication deserves a warning all the same."""
_PER_STEP: Final = 8
_INLINE: Final = 0.8
_ALIKE: Final = 0.7
_SIZES: Final = 2
_BETWEEN_NS: Final = 10_000
_BALANCED: Final = 0.4
_ALONE: Final = ("AllReduce", *BY_TOKENS)
_PAIRED: Final = ("AllGather", "ReduceScatter")
_WHERE: Final = ("input_id", "rank", "device")


@fact
def critical_path(run: Run) -> pl.DataFrame:
    """Exposed time in such collectives of each GPU: ``input_id, rank, device, inline_ns`` (their union)."""
    table = run.table("collectives").filter(
        (pl.col("source").cast(pl.String) == "kernel")
        & pl.col("rank").is_not_null()
        & pl.col("exposed_ns").is_not_null()
        & (pl.col("duration_ns") > 0)
    )
    rows = table.with_columns(
        op=pl.col("op").cast(pl.String),
        end_ns=pl.col("start_ns") + pl.col("duration_ns"),
        inline=pl.col("exposed_ns") >= _INLINE * pl.col("duration_ns"),
    ).filter(pl.col("op").is_in([*_ALONE, *_PAIRED]))
    kind = [*_WHERE, "process_group", "op"]
    rows = rows.sort(*kind, "start_ns").with_columns(
        # Gradients that nothing hides come one behind the other, without compute between them.
        apart=(pl.col("start_ns") - pl.col("end_ns").shift(1).over(kind)).fill_null(0)
        > pl.min_horizontal(pl.col("duration_ns") // 4, _BETWEEN_NS)
    )
    kinds = rows.group_by(kind).agg(
        count=pl.len(),
        steps=pl.col("step").n_unique(),
        inline=(pl.col("inline") & pl.col("apart")).mean(),
        alike=pl.col("size_bytes").value_counts(sort=True).head(_SIZES).struct.field("count").sum() / pl.len(),
    )
    path = kinds.filter(
        (pl.col("count") >= _PER_STEP * pl.col("steps"))
        & (pl.col("inline") >= _INLINE)
        & ((pl.col("alike") >= _ALIKE) | pl.col("op").is_in(BY_TOKENS))
    )
    group = [*_WHERE, "process_group"]
    paired = pl.col("op").is_in(_PAIRED)
    both = (paired.sum().over(group) == 2) & (
        pl.col("count").min().over(group) >= _BALANCED * pl.col("count").max().over(group)
    )
    path = path.filter(~paired | both)
    chosen = rows.join(path.select(kind), on=kind, how="semi", nulls_equal=True).filter(pl.col("inline"))
    return intervals.held(chosen, _WHERE, inline_ns=pl.col("exposed_ns"))
