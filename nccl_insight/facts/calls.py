"""Collective and p2p calls of a log, numbered by their order within each rank of each communicator."""

from __future__ import annotations

import polars as pl

from nccl_insight.tables.run import Run

POINT_TO_POINT = ("Send", "Recv", "SendRecv", "PutSignal", "WaitSignal", "Signal")


def collective_calls(run: Run) -> pl.DataFrame:
    """Collectives in line order: ``comm_id, rank, host, nth`` (0-based in rank and communicator), ``op, count,
    dtype, red_op, root, size_bytes, input_id, line``. Calls whose rank or communicator is unknown are left out.
    """
    return run.memo("views.collective_calls", _collectives)


def _collectives(run: Run) -> pl.DataFrame:
    wanted = pl.col("comm_id").is_not_null() & pl.col("rank").is_not_null() & pl.col("op").is_not_null()
    rows = (
        run.lazy("calls")
        .filter(wanted & ~pl.col("op").is_in(list(POINT_TO_POINT)))
        .select(
            "comm_id", "rank", "host", "pid", "op", "count", "dtype", "red_op", "root", "size_bytes", "input_id",
            "line",
        )
        .collect()
    )  # fmt: skip
    # Tables of logs are in line order: millions of rows need not be sorted again.
    place = rows.select(pl.col("input_id").cast(pl.UInt64) * (1 << 44) + pl.col("line")).to_series()
    rows = rows if place.is_sorted() else rows.sort("input_id", "line", maintain_order=True)
    nth = pl.int_range(pl.len(), dtype=pl.UInt32).over("comm_id", "rank", "host", "pid").alias("nth")
    return rows.with_columns(nth, pl.col("op").cast(pl.String)).select(
        "comm_id", "rank", "host", "nth", "op", "count", "dtype", "red_op", "root", "size_bytes", "input_id", "line",
    )  # fmt: skip


def progress(run: Run) -> pl.DataFrame:
    """How far each rank came: ``comm_id, rank, host, calls, last_op, input_id, line`` (of its last call)."""
    return run.memo("views.call_progress", _progress)


def _progress(run: Run) -> pl.DataFrame:
    return (
        collective_calls(run)
        .group_by("comm_id", "rank", maintain_order=True)
        .agg(
            pl.col("host").first(),
            pl.len().alias("calls"),
            pl.col("op").last().alias("last_op"),
            pl.col("input_id").last(),
            pl.col("line").last(),
        )
    )


def judgeable(run: Run) -> pl.DataFrame:
    """Communicators whose calls can be compared: ``comm_id, nranks, ranks``.

    Every rank that the log holds of them printed calls, and their init is in the log, so that counting starts
    at the first call.
    """
    return run.memo("views.calls_judgeable", _judgeable)


def _judgeable(run: Run) -> pl.DataFrame:
    made = run.table("ranks").group_by("comm_id").agg(
        pl.col("rank").n_unique().alias("known"), pl.col("nranks").max()
    )  # fmt: skip
    called = progress(run).group_by("comm_id").agg(pl.col("rank").n_unique().alias("ranks"))
    return (
        called.join(made, on="comm_id", how="inner")
        .filter((pl.col("ranks") > 1) & (pl.col("ranks") == pl.col("known")))
        .select("comm_id", "nranks", "ranks")
    )


def log_is_cut(run: Run) -> bool:
    """Whether an input says that lines are missing."""
    return run.table("notes").filter(pl.col("kind").is_in(["log-truncated", "log-torn"])).height > 0
