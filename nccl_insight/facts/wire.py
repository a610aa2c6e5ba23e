"""Transfers as the wire saw them: one row per collective, with waiting removed where several ranks were traced."""

from __future__ import annotations

import polars as pl

from nccl_insight import bandwidth
from nccl_insight.tables.run import Run

_TRACED = ("kernel", "cpu_op")


def transfers(run: Run) -> pl.DataFrame:
    """One row per matched collective, or per event where only one rank was traced.

    Columns: ``match_id, input_id, rank, ranks, process_group, comm_id, group_ranks, op, size_bytes, dtype, group_size,
    step, start_ns, wire_ns, busbw_gbps, waited, source, matched``. ``wire_ns`` is the shortest duration over ranks (the
    last to arrive waits for nobody); for unmatched rows it is the duration and ``waited`` is unknown (null).
    """
    return run.memo("views.wire.transfers", _transfers)


def _transfers(run: Run) -> pl.DataFrame:
    table = run.table("collectives").filter(pl.col("source").cast(pl.String).is_in(_TRACED))
    if "match_id" not in table.columns:
        table = table.with_columns(match_id=pl.lit(None, pl.UInt32))
    if "comm_id" not in table.columns:
        table = table.with_columns(comm_id=pl.lit(None, pl.String))
    wanted = ["process_group", "comm_id", "group_ranks", "op", "size_bytes", "dtype", "group_size", "step"]
    matched = (
        table.filter(pl.col("match_id").is_not_null())
        .sort("match_id", "duration_ns")
        .group_by("match_id", maintain_order=True)
        .agg(
            pl.col("input_id").first(),
            pl.col("rank").first(),
            pl.col("rank").sort().alias("ranks"),
            *(pl.col(c).first() for c in wanted),
            pl.col("start_ns").max(),
            wire_ns=pl.col("duration_ns").min(),
            waited=pl.col("duration_ns").max() - pl.col("duration_ns").min(),
            source=pl.col("source").first().cast(pl.String),
            matched=pl.lit(True),
        )
    )
    single = table.filter(pl.col("match_id").is_null()).select(
        "match_id", "input_id", "rank", *wanted, "start_ns", ranks=pl.concat_list("rank"), wire_ns="duration_ns",
        waited=pl.lit(None, pl.Int64), source=pl.col("source").cast(pl.String), matched=pl.lit(False),
    )  # fmt: skip
    rows = pl.concat([matched, single.select(matched.columns)], how="vertical_relaxed")
    n = pl.coalesce(pl.col("group_size"), pl.col("group_ranks").list.len().cast(pl.Int32))
    return rows.with_columns(
        busbw_gbps=bandwidth.busbw_expr(pl.col("op"), pl.col("size_bytes"), pl.col("wire_ns"), n)
    )


def ends_after_last_arrival(run: Run) -> pl.DataFrame:
    """Per rank and matched collective: ``match_id, input_id, rank, after_ns, op, source``, only with a common clock.

    ``after_ns`` is the rank's end minus the last start of the collective, the time the transfer took for that rank.
    """
    table = run.table("collectives")
    if "match_id" not in table.columns:
        return pl.DataFrame(
            schema={"match_id": pl.UInt32, "input_id": pl.UInt16, "rank": pl.Int32, "after_ns": pl.Int64,
                    "op": pl.String, "source": pl.String}
        )  # fmt: skip
    rows = table.filter(pl.col("match_id").is_not_null() & pl.col("skew_ns").is_not_null())
    return rows.select(
        "match_id", "input_id", "rank",
        (pl.col("start_ns") + pl.col("duration_ns") - pl.col("start_ns").max().over("match_id")).alias("after_ns"),
        pl.col("op").cast(pl.String), pl.col("source").cast(pl.String),
    )  # fmt: skip
