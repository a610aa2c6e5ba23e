"""Matched collectives side by side: who waited how long, each part in each collective, statistics by kind."""

import polars as pl

_KIND = ["process_group", "op", "size_bytes", "dtype", "group_size"]


def waits(collectives: pl.DataFrame) -> pl.DataFrame:
    """Waiting per rank and process group.

    Columns: ``rank, process_group, collectives, duration_ns, wait_ns, mean_wait_ns, worst_wait_ns, times_last,
    times_first, wait_share``. ``wait_ns`` is the time beyond the shortest member's; the rank with the shortest
    duration came last, the one with the longest first.
    """
    rows = _matched(collectives)
    last = pl.col("duration_ns") == pl.col("duration_ns").min().over("match_id")
    first = pl.col("duration_ns") == pl.col("duration_ns").max().over("match_id")
    return (
        rows.with_columns(last=last, first=first)
        .group_by("rank", "process_group")
        .agg(
            collectives=pl.len().cast(pl.UInt32),
            duration_ns=pl.col("duration_ns").sum(),
            wait_ns=pl.col("wait_ns").sum(),
            mean_wait_ns=pl.col("wait_ns").mean().cast(pl.Int64),
            worst_wait_ns=pl.col("wait_ns").max(),
            times_last=pl.col("last").sum().cast(pl.UInt32),
            times_first=pl.col("first").sum().cast(pl.UInt32),
        )
        .with_columns(wait_share=pl.col("wait_ns") / pl.col("duration_ns"))
        .sort("process_group", "rank", nulls_last=True)
    )


def collective_ranks(collectives: pl.DataFrame) -> pl.DataFrame:
    """One row a matched collective or transfer with each rank's part, ranks ascending.

    Columns: ``match_id, process_group, op, size_bytes, step, ranks, start_ns, duration_ns, wait_ns`` (lists),
    ``transfer_ns`` (shortest member), ``worst_wait_ns, last_rank`` (the shortest member), ``end_spread_ns`` (latest
    end less the earliest).
    """
    rows = _matched(collectives).sort("match_id", "rank")
    end = pl.col("start_ns") + pl.col("duration_ns")
    return rows.group_by("match_id", maintain_order=True).agg(
        pl.col("process_group").first(),
        pl.when(pl.col("op").first() == "Recv").then(pl.lit("Send")).otherwise(pl.col("op").first()).alias("op"),
        pl.col("size_bytes", "step").first(),
        pl.col("rank").alias("ranks"),
        pl.col("start_ns", "duration_ns", "wait_ns"),
        transfer_ns=pl.col("duration_ns").min(),
        worst_wait_ns=pl.col("wait_ns").max(),
        last_rank=pl.col("rank").sort_by("duration_ns").first(),
        end_spread_ns=end.max() - end.min(),
    )


def collective_statistics(collectives: pl.DataFrame) -> pl.DataFrame:
    """Collectives by process group, operation and size, each counted once, over their transfers without waiting.

    Columns: ``process_group, op, size_bytes, dtype, group_size, count, transfer_ns, min_ns, median_ns, max_ns,
    wait_ns`` (mean per rank), ``min_busbw_gbps, median_busbw_gbps, max_busbw_gbps``. Unmatched rows count one by one.
    """
    key = pl.coalesce(
        pl.concat_str(pl.lit("m"), pl.col("match_id").cast(pl.String)),
        pl.concat_str(pl.lit("r"), pl.int_range(pl.len()).cast(pl.String)),
    )
    op = pl.col("op").cast(pl.String)
    each = (
        collectives.filter(pl.col("duration_ns") > 0)
        .with_columns(key=key, op=pl.when(op == "Recv").then(pl.lit("Send")).otherwise(op))
        .sort("duration_ns")
        .group_by("key", maintain_order=True)
        .agg(pl.col(*_KIND).first(), pl.col("duration_ns").min(), pl.col("busbw_gbps").max(), pl.col("wait_ns").mean())
    )
    took, speed = pl.col("duration_ns"), pl.col("busbw_gbps")
    return (
        each.group_by(_KIND)
        .agg(
            count=pl.len().cast(pl.UInt32),
            transfer_ns=took.sum(),
            min_ns=took.min(),
            median_ns=took.median().cast(pl.Int64),
            max_ns=took.max(),
            wait_ns=pl.col("wait_ns").mean().cast(pl.Int64),
            min_busbw_gbps=speed.min(),
            median_busbw_gbps=speed.median(),
            max_busbw_gbps=speed.max(),
        )
        .sort("transfer_ns", *_KIND, descending=[True, *(False for _ in _KIND)], nulls_last=True)
    )


def _matched(collectives: pl.DataFrame) -> pl.DataFrame:
    return collectives.filter(pl.col("match_id").is_not_null() & pl.col("rank").is_not_null()).with_columns(
        pl.col("op").cast(pl.String)
    )
