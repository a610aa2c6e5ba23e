"""Which rows of several ranks are one operation.

Members of a collective are found by process group and sequence number; without numbers by their order, only where
the order is proven: all ranks of the group show the same operations and sizes, in the whole trace or within a step.
Where ranks differ, a common clock decides; without one the rows stay unmatched. A missing event never shifts others.
A Send and its Recv are one transfer, found in the same way among the rows of one pair and direction.
"""

from typing import Final

import polars as pl

from nccl_insight.tables.match.candidates import COUNTED_BY_TYPE, POINT_TO_POINT

_SAME_NUMBERS: Final = 0.9
_METHODS: Final = pl.Enum(["seq", "order", "step", "time"])


def matched(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with ``key`` (null = unmatched) and ``match_method``."""
    point = pl.col("op").is_in(POINT_TO_POINT)
    kind = pl.when(pl.col("source") == COUNTED_BY_TYPE).then("op").otherwise(pl.lit(""))
    numbered = rows.with_columns(
        # the hash that Kineto gives one operation on all its ranks serves where there is no number
        number=pl.when(pl.col("seq").is_not_null().all().over("group"))
        .then(pl.col("seq").cast(pl.String))
        .when(pl.col("comms_id").is_not_null().all().over("group"))
        .then("comms_id"),
        kind=kind,
        position=pl.int_range(pl.len()).over("group", "rank"),
    )
    # One number can stand for several kernels (operations grouped into one call): they count in order.
    numbered = numbered.with_columns(nth=pl.int_range(pl.len()).over("group", "rank", "kind", "number", "sign"))
    shared = pl.col("rank").n_unique().over("group", "kind", "number") > 1
    numbered = numbered.with_columns(
        all_seq=pl.col("number").is_not_null() & ((~point) | (shared.mean().over("group") >= _SAME_NUMBERS))
    )
    by_seq = _keyed(numbered.filter("all_seq"), "seq", pl.struct("kind", "number", "nth"))
    rest = numbered.filter(~pl.col("all_seq"))
    same, differ = _split(rest, ["group"], "position")
    by_order = _keyed(same, "order", pl.col("position"))
    in_step = differ.filter(pl.col("step").is_not_null()).with_columns(
        position=pl.int_range(pl.len()).over("group", "rank", "step")
    )
    same_step, _ = _split(in_step, ["group", "step"], "position")
    by_step = _keyed(same_step, "step", pl.struct("step", "position"))
    left = differ.join(by_step.select("row"), on="row", how="anti")
    return pl.concat([by_seq, by_order, by_step, _by_time(left)], how="diagonal")


def _keyed(rows: pl.DataFrame, method: str, number: pl.Expr) -> pl.DataFrame:
    return rows.with_columns(
        key=pl.struct("group", "sign", number.hash().alias("number")).hash(),
        match_method=pl.lit(method, dtype=_METHODS),
    )


def _split(rows: pl.DataFrame, within: list[str], position: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows of the groups in which every rank shows the same sequence of signatures, and all others.

    All ranks of a group must take part in each of its parts (steps): a rank without the step proves nothing.
    """
    if rows.is_empty():
        return rows, rows
    shape = rows.group_by(*within, "rank").agg(
        pattern=pl.struct(position, "sign").hash().cast(pl.UInt128).sum().hash(), size=pl.len()
    )
    ranks = rows.group_by("group").agg(ranks=pl.col("rank").n_unique())
    good = (
        shape.group_by(within)
        .agg(patterns=pl.struct("pattern", "size").n_unique(), present=pl.col("rank").n_unique())
        .join(ranks, on="group")
        .filter((pl.col("patterns") == 1) & (pl.col("present") == pl.col("ranks")))
    )
    return rows.join(good, on=within, how="semi"), rows.join(good, on=within, how="anti")


def _by_time(rows: pl.DataFrame) -> pl.DataFrame:
    """Members by nearest end on a common clock: only between ranks of one known host, and only mutual choices."""
    if rows.is_empty() or rows["host"].null_count() or rows["host"].n_unique() != 1:
        return rows.clear().with_columns(key=pl.lit(None, pl.UInt64), match_method=pl.lit(None, dtype=_METHODS))
    counts = rows.group_by("group", "rank").len().sort("group", "len", "rank", descending=[False, True, False])
    lead = counts.unique("group", keep="first", maintain_order=True).select("group", lead="rank")
    marked = rows.join(lead, on="group")
    reference = marked.filter(pl.col("rank") == pl.col("lead")).select(
        "group", "sign", "row", ref_row="row", ref_start="start_ns", ref_end="end_ns", end_ns="end_ns"
    )
    others = marked.filter(pl.col("rank") != pl.col("lead")).sort("end_ns")
    near = (
        others.join_asof(
            reference.drop("row").sort("end_ns"),
            on="end_ns",
            by=["group", "sign"],
            strategy="nearest",
            check_sortedness=False,
        )
        .filter(
            pl.col("ref_row").is_not_null()
            & (pl.max_horizontal("start_ns", "ref_start") <= pl.min_horizontal("end_ns", "ref_end"))
        )
        .with_columns(distance=(pl.col("end_ns") - pl.col("ref_end")).abs())
        .sort("distance")
        .unique(["ref_row", "rank"], keep="first", maintain_order=True)
    )
    pairs = pl.concat([near.select("row", "ref_row"), reference.select("row", "ref_row")])
    return rows.join(pairs, on="row").with_columns(
        key=pl.struct("group", "ref_row").hash(), match_method=pl.lit("time", dtype=_METHODS)
    )


def members_of(keyed: pl.DataFrame) -> pl.DataFrame:
    """Matches of at least two ranks, each rank once, numbered in order of time."""
    whole = keyed.filter((pl.len().over("key") > 1) & (pl.col("rank").n_unique().over("key") == pl.len().over("key")))
    at = pl.coalesce(pl.col("start_ns"), pl.col("seq"))
    return whole.with_columns(first=at.min().over("key")).with_columns(
        match_id=pl.struct("first", "key").rank("dense") - 1
    )
