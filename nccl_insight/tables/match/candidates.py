"""Rows of collectives and of transfers that can have partners on other ranks, with the group that these are in."""

from typing import Final

import polars as pl

from nccl_insight.base.bandwidth import SYNCHRONISING
from nccl_insight.base.words import words

TOGETHER: Final = (*SYNCHRONISING, "Broadcast", "Reduce")
_PER_RANK_SIZE: Final = ("AllToAll", "AllToAllv", "Gather", "Scatter")
_TRACED: Final = ("kernel", "cpu_op", "inspector", "nccl_tests")
POINT_TO_POINT: Final = ("Send", "Recv")
COUNTED_BY_TYPE: Final = "inspector"
"""NCCL Inspector counts the collectives of a communicator by their type."""


def transfers(collectives: pl.DataFrame) -> pl.DataFrame:
    """Rows of sends and receives that can be matched: their group is the pair and its direction."""
    if "peer" not in collectives.columns:
        return pl.DataFrame()
    op = pl.col("op").cast(pl.String)
    sends = op == "Send"
    rows = collectives.with_row_index("row").filter(
        op.is_in(POINT_TO_POINT)
        & pl.col("rank").is_not_null()
        & pl.col("peer").is_not_null()
        & pl.col("source").cast(pl.String).is_in(_TRACED)
        & (pl.col("duration_ns") >= 0)
    )
    if rows.is_empty():
        return pl.DataFrame()
    missing = [pl.lit(None, pl.String).alias(c) for c in ("comms_id",) if c not in rows.columns]
    pair = pl.concat_str("src", "dst", separator=">")
    job = pl.col("job").cast(pl.String).fill_null("") if "job" in rows.columns else pl.lit("")
    group = (pl.lit("p2p"), job, "source", pl.col("process_group").fill_null("?"), pair)
    src, dst = (pl.when(sends).then(a).otherwise(b) for a, b in (("rank", "peer"), ("peer", "rank")))
    who = ("row", "rank", "process_group", "group_ranks", "seq", pl.col("op", "source").cast(pl.String))
    what = ("size_bytes", "dtype", "start_ns", "duration_ns", "step", "comms_id")
    return (
        rows.with_columns(missing)
        .with_columns(src=src, dst=dst)
        .select(
            *who,
            *what,
            group=pl.concat_str(*group, separator="|"),
            sign=pl.struct("size_bytes", "dtype").hash(),
            end_ns=pl.col("start_ns") + pl.col("duration_ns"),
        )
        .unique(["rank", "op", "start_ns", "duration_ns", "group", "seq"], keep="first", maintain_order=True)
        .with_columns(seq=_number_in_pair())
        .sort("group", "rank", "start_ns", "seq")
    )


def _number_in_pair() -> pl.Expr:
    """Inspector numbers a rank's transfers, whoever the peer is; in a pair their order counts, if none is missing."""
    sends = pl.col("op") == "Send"
    whole = sends.sum().over("group") == (~sends).sum().over("group")
    order = pl.col("seq").rank("ordinal").over("group", "op").cast(pl.Int64)
    return pl.when(pl.col("source") != COUNTED_BY_TYPE).then("seq").when(whole).then(order)


def candidates(collectives: pl.DataFrame) -> pl.DataFrame:
    """Rows that can be matched, one per event even if a file was given twice, with group and signature."""
    wanted = list(
        words("""rank process_group group_ranks seq op size_bytes dtype start_ns duration_ns step source
        comms_id job""")
    )
    missing = [pl.lit(None, pl.String).alias(c) for c in wanted if c not in collectives.columns]
    size = pl.when(pl.col("op").cast(pl.String).is_in(_PER_RANK_SIZE)).then(None).otherwise(pl.col("size_bytes"))
    return (
        collectives.with_row_index("row")
        .with_columns(missing)
        .select("row", *wanted)
        .with_columns(pl.col("op", "source").cast(pl.String))
        .filter(
            pl.col("rank").is_not_null()
            & pl.col("op").is_in(TOGETHER)
            & pl.col("source").is_in(_TRACED)
            & (pl.col("duration_ns") >= 0)
        )
        .unique(["rank", "op", "start_ns", "duration_ns", "process_group", "seq"], keep="first", maintain_order=True)
        .with_columns(
            group=pl.concat_str(
                pl.col("job").cast(pl.String).fill_null(""),
                pl.col("source"),
                pl.col("process_group").fill_null("?"),
                pl.col("group_ranks").cast(pl.List(pl.String)).list.join(",").fill_null("?"),
                separator="|",
            ),
            sign=pl.struct("op", size, "dtype").hash(),
            end_ns=pl.col("start_ns") + pl.col("duration_ns"),
        )
        .sort("group", "rank", "start_ns", "seq")
    )
