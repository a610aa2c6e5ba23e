"""Jobs that traces belong to, and ranks and peers as numbers of the job."""

from collections.abc import Mapping
from typing import Final

import polars as pl

from nccl_insight.tables.match.candidates import COUNTED_BY_TYPE

_APART_NS: Final = 6 * 3600 * 10**9


def without_device_numbers(tables: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Tables without the ranks that are numbers of GPUs, where several files number theirs; nothing otherwise."""
    info = tables.get("trace_info")
    if info is None or not {"rank_origin", "input_id"} <= set(info.columns):
        return {}
    numbered = info.filter(pl.col("rank_origin") == "device")["input_id"].unique()
    if numbered.len() < 2:
        return {}
    alone = pl.when(~pl.col("input_id").is_in(numbered.implode())).then("rank").alias("rank")
    return {
        name: frame.with_columns(alone) for name, frame in tables.items() if {"rank", "input_id"} <= set(frame.columns)
    }


def jobs_of(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """``input_id, job`` where the traces are not of one job; no rows otherwise.

    Traces belong to different jobs if they state different numbers of ranks, or if hours lie between them. Traces that
    state no number belong to the only job of their time.
    """
    none = pl.DataFrame(schema={"input_id": pl.UInt16, "job": pl.Int32})
    info = tables.get("trace_info")
    if info is None or not {"world_size", "start_ns", "end_ns", "input_id"} <= set(info.columns):
        return none
    epoch = pl.col("clock") == "epoch" if "clock" in info.columns else pl.lit(False)
    rows = info.select(
        "input_id", "world_size", start=pl.when(epoch).then("start_ns"), end=pl.when(epoch).then("end_ns")
    ).unique("input_id", keep="first", maintain_order=True)
    timed = rows.sort("start", nulls_last=True).with_columns(
        period=(pl.col("start") - pl.col("end").cum_max().shift(1) > _APART_NS).fill_null(False).cum_sum()
    )
    sizes = timed.with_columns(
        size=pl.coalesce(
            "world_size",
            pl.when(pl.col("world_size").drop_nulls().n_unique().over("period") == 1).then(
                pl.col("world_size").max().over("period")
            ),
        )
    )
    jobs = sizes.with_columns(job=pl.struct("period", pl.col("size").fill_null(-1)).rank("dense").cast(pl.Int32))
    return jobs.select("input_id", "job") if jobs["job"].n_unique() > 1 else none


def jobs_text(info: pl.DataFrame) -> str:
    """The jobs of the traces, for a note."""
    jobs = info.group_by("job").agg(pl.col("world_size").max(), count=pl.len()).sort("job")
    parts = [
        f"{n} of {'an unknown number of' if w is None else w} ranks"
        for w, n in jobs.select("world_size", "count").iter_rows()
    ]
    return f"the traces are of {jobs.height} jobs, each compared by itself: {'; '.join(parts[:8])}"


def ranks_of_job(collectives: pl.DataFrame) -> pl.DataFrame:
    """Ranks of the job for records that know only the rank within their communicator (NCCL Inspector).

    A process is the rank that it has in the largest communicator, if that tells the processes apart; members of the
    others follow. Otherwise nothing changes.
    """
    if not {"host", "pid", "process_group"} <= set(collectives.columns):
        return collectives
    mine = (pl.col("source").cast(pl.String) == COUNTED_BY_TYPE) & pl.col("pid").is_not_null()
    rows = collectives.filter(mine & pl.col("rank").is_not_null() & pl.col("group_size").is_not_null())
    place = ["host", "pid"]
    names = rows.unique([*place, "process_group"]).select(*place, "process_group", "group_size", "rank")
    own = (
        names.sort("group_size", "process_group", descending=True)
        .unique(place, keep="first", maintain_order=True)
        .select(*place, job_rank="rank", largest="process_group")
    )
    if own.is_empty() or own["job_rank"].n_unique() < own.height or own["largest"].n_unique() > 1:
        return collectives
    members = (
        names.join(own, on=place, nulls_equal=True)
        .sort("process_group", "rank")
        .group_by("process_group")
        .agg(pl.col("job_rank"), size=pl.col("group_size").first())
        .with_columns(members=pl.when(pl.col("job_rank").list.len() == pl.col("size")).then("job_rank"))
        .select("process_group", "members")
    )
    return (
        collectives.join(own.drop("largest"), on=place, how="left", nulls_equal=True, maintain_order="left")
        .join(members, on="process_group", how="left", maintain_order="left")
        .with_columns(
            rank=pl.when(mine).then(pl.coalesce("job_rank", "rank")).otherwise("rank"),
            group_ranks=pl.when(mine).then(pl.coalesce("group_ranks", "members")).otherwise("group_ranks"),
        )
        .drop("job_rank", "members")
    )


def peers_of_job(collectives: pl.DataFrame) -> pl.DataFrame:
    """``peer`` as a rank of the job. Torch counts it within the group, others name the rank itself.

    Which of the two is told by what is possible: a peer is a member of the group and not the rank itself.
    """
    if not {"peer", "group_ranks"} <= set(collectives.columns):
        return collectives
    pairs = collectives.select("process_group", "group_ranks", "rank", "peer").drop_nulls().unique()
    if pairs.is_empty():
        return collectives
    named = pl.col("peer").is_in(pl.col("group_ranks")) & (pl.col("peer") != pl.col("rank"))
    inside = pl.col("group_ranks").list.get(pl.col("peer"), null_on_oob=True)
    counted = (inside != pl.col("rank")).fill_null(False)
    groups = pairs.group_by("process_group", "group_ranks").agg(
        by_name=named.sum(), by_place=counted.sum(), count=pl.len()
    )
    placed = groups.filter((pl.col("by_place") == pl.col("count")) & (pl.col("by_name") < pl.col("count"))).select(
        "process_group", "group_ranks", placed=pl.lit(True)
    )
    return (
        collectives.join(placed, on=["process_group", "group_ranks"], how="left", maintain_order="left")
        .with_columns(peer=pl.when("placed").then(inside.cast(pl.Int32)).otherwise("peer"))
        .drop("placed")
    )
