"""Joins traces with the NCCL log of the same job: process groups to communicators, tuning lines to collectives."""

from collections.abc import Mapping

import polars as pl


def join_log(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """``collectives`` with ``comm_id``, and with algorithm and protocol from the log's tuning lines.

    A process group is a communicator if their members are the same ranks of the job and no other communicator has
    the same members; a group that is named by a communicator's id (Nsight Systems) is that one. Tuning lines count
    only where every line of a communicator, operation and size says the same.
    """
    collectives = tables["collectives"]
    if "process_group" not in collectives.columns or "comm_id" in collectives.columns:
        return collectives
    log = tables.get("ranks")
    if log is None or log.is_empty():
        return collectives.with_columns(comm_id=pl.lit(None, pl.String))
    members = _members(log)
    known = log["comm_id"].drop_nulls().unique().to_list()
    named = pl.when(pl.col("process_group").is_in(known)).then("process_group")
    key = pl.col("group_ranks").list.sort().cast(pl.List(pl.String)).list.join(",")
    joined = (
        collectives.with_columns(_key=key)
        .join(members, left_on="_key", right_on="members", how="left", maintain_order="left")
        .with_columns(comm_id=pl.coalesce(named, pl.col("by_members")))
        .drop("_key", "by_members")
    )
    return _tuned(joined, tables.get("tuning_choice"))


def _members(log: pl.DataFrame) -> pl.DataFrame:
    """``members`` (ranks of the job, sorted, as text) and ``by_members`` (the one communicator that has them).

    Ranks of the job are those of the largest communicator; the processes of another are found in it by host, pid
    and device. Communicators of which a member is unknown are left out.
    """
    rows = log.filter(pl.col("comm_id").is_not_null() & pl.col("rank").is_not_null()).unique(
        ["comm_id", "rank"], keep="first", maintain_order=True
    )
    sizes = rows.group_by("comm_id").agg(pl.col("nranks").max(), pl.len())
    whole = sizes.filter(pl.col("len") == pl.col("nranks"))
    largest = whole.sort(["nranks", "comm_id"], descending=[True, False]).head(1).select("comm_id")
    place = ["host", "pid", "cuda_dev"]
    job = rows.join(largest, on="comm_id", how="semi").select(*place, job_rank="rank")
    return (
        rows.join(whole, on="comm_id", how="semi")
        .join(job.unique(place, keep="none"), on=place, how="left", nulls_equal=True)
        .group_by("comm_id")
        .agg(pl.col("job_rank").sort(), unknown=pl.col("job_rank").null_count())
        .filter(pl.col("unknown") == 0)
        .with_columns(members=pl.col("job_rank").cast(pl.List(pl.String)).list.join(","))
        .group_by("members")
        .agg(pl.col("comm_id").sort(), same=pl.len())
        .filter(pl.col("same") == 1)
        .select("members", by_members=pl.col("comm_id").list.first())
    )


def _tuned(collectives: pl.DataFrame, choices: pl.DataFrame | None) -> pl.DataFrame:
    if choices is None or choices.is_empty() or not {"algorithm", "protocol"} <= set(collectives.columns):
        return collectives
    one = (
        choices.filter(pl.col("comm_id").is_not_null() & pl.col("size_bytes").is_not_null())
        .with_columns(pl.col("op").cast(pl.String))
        .group_by("comm_id", "op", "size_bytes")
        .agg(
            pl.struct("algorithm", "protocol").n_unique().alias("_kinds"),
            log_algorithm=pl.col("algorithm").first(),
            log_protocol=pl.col("protocol").first(),
        )
        .filter(pl.col("_kinds") == 1)
        .drop("_kinds")
    )
    return (
        collectives.with_columns(_op=pl.col("op").cast(pl.String))
        .join(
            one,
            left_on=["comm_id", "_op", "size_bytes"],
            right_on=["comm_id", "op", "size_bytes"],
            how="left",
            maintain_order="left",
        )
        .with_columns(
            algorithm=pl.coalesce("log_algorithm", "algorithm"), protocol=pl.coalesce("log_protocol", "protocol")
        )
        .drop("_op", "log_algorithm", "log_protocol")
    )
