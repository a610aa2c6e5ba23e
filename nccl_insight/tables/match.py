"""Matching of one collective over the traces of several ranks, and what only the comparison tells.

Members of a collective are found by process group and sequence number; without numbers by their order, only where
the order is proven: all ranks of the group show the same operations and sizes, in the whole trace or within a step.
Where ranks differ, a common clock decides; without one the rows stay unmatched. A missing event never shifts others.
A Send and its Recv are one transfer, found in the same way among the rows of one pair and direction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from nccl_insight.tables import waiting
from nccl_insight.tables.join import join_log

SYNCHRONISING: Final = (
    "AllReduce", "AllGather", "ReduceScatter", "AllToAll", "AllToAllv", "Barrier", "Broadcast", "Reduce",
)  # fmt: skip
_PER_RANK_SIZE: Final = ("AllToAll", "AllToAllv", "Gather", "Scatter")
_TRACED: Final = ("kernel", "cpu_op", "inspector", "nccl_tests")
_POINT_TO_POINT: Final = ("Send", "Recv")
_COUNTED_BY_TYPE: Final = "inspector"
"""NCCL Inspector counts the collectives of a communicator by their type."""
_SAME_NUMBERS: Final = 0.9
_APART_NS: Final = 6 * 3600 * 10**9
_CLOCK_SLACK_NS: Final = 100_000
_METHODS: Final = pl.Enum(["seq", "order", "step", "time"])


def finish(tables: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables with cross-rank facts in ``collectives``; to be called once, after all inputs are read.

    Joins the NCCL log first (``comm_id``, see :func:`join_log`). Adds ``match_id`` (one number for all members of
    a collective), ``match_method`` (seq, order, step, time) and ``matched_ranks``; fills ``min_duration_ns``
    (shortest member: the wire time, as the last to arrive waits for nobody), ``wait_ns`` (duration beyond that) and,
    for collectives, ``skew_ns`` (start after the first member's start, only where clocks are comparable). ``peer``
    becomes a rank of the job where traces count it within the group. Adds
    ``trace_clocks`` (``rank, host, offset_ns, comparable``) and notes about clocks and unmatched rows.
    """
    result = dict(tables)
    collectives = tables.get("collectives")
    if collectives is None or collectives.is_empty():
        return result
    unranked = _without_device_numbers(tables)
    if unranked:
        tables = result = {**result, **unranked}
        collectives = result["collectives"]
        text = (
            "several profiles number their GPUs from 0 each and name no ranks, so their GPUs are not compared"
        )
        _add_note(result, "trace-metadata-missing", f"{text}; give the profile of one host alone")
    jobs = _jobs(tables)
    if jobs.height:
        result["trace_info"] = tables["trace_info"].join(
            jobs, on="input_id", how="left", maintain_order="left"
        )
        tables = {
            **tables,
            "collectives": collectives.join(jobs, on="input_id", how="left", maintain_order="left"),
        }
        _add_note(result, "several-jobs", _jobs_text(result["trace_info"]))
    collectives = _peers_of_job(_ranks_of_job(join_log(tables)))
    rows = pl.concat([_candidates(collectives), _transfers(collectives)], how="diagonal_relaxed")
    result["collectives"] = collectives
    if rows["rank"].n_unique() < 2:
        return _with_statistics(result)
    hosts = _hosts(tables)
    keyed = _match(rows.join(hosts, on="rank", how="left"))
    members = _members(keyed)
    if members.is_empty():
        _add_unmatched(result, rows.height)
        return _with_statistics(result)
    together = members.filter(pl.col("op").is_in(SYNCHRONISING))
    clocks = _clocks(together if together.height else members)
    result["trace_clocks"] = clocks
    comparable = bool(clocks["comparable"].all())
    facts = members.with_columns(
        skew_ns=pl.when(pl.col("op").is_in(SYNCHRONISING)).then(
            pl.col("start_ns") - pl.col("start_ns").min().over("match_id")
        )
        if comparable
        else pl.lit(None),
        min_duration_ns=pl.col("duration_ns").min().over("match_id"),
        wait_ns=pl.col("duration_ns") - pl.col("duration_ns").min().over("match_id"),
        matched_ranks=pl.len().over("match_id").cast(pl.Int32),
    ).select(
        "row", pl.col("match_id").cast(pl.UInt32), "match_method", "matched_ranks",
        pl.col("skew_ns").cast(pl.Int64), "min_duration_ns", "wait_ns",
    )  # fmt: skip
    kept = [c for c in collectives.columns if c not in facts.columns]
    result["collectives"] = (
        collectives.select(kept)
        .with_row_index("row")
        .join(facts, on="row", how="left", maintain_order="left")
        .drop("row")
    )
    if not comparable:
        _add_note(result, "clocks-not-comparable", _clock_text(clocks))
    alone = _without_other_side(rows, members)
    if alone.height > 0.02 * rows.filter(pl.col("op").is_in(_POINT_TO_POINT)).height:
        _add_note(result, "trace-metadata-missing", _alone_text(alone))
    if (missing := rows.height - members.height - alone.height) > 0.02 * rows.height:
        _add_unmatched(result, missing)
    return _with_statistics(result)


def _with_statistics(result: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Adds ``waits``, ``collective_ranks`` and ``collective_statistics`` (:mod:`nccl_insight.tables.waiting`)."""
    table = result["collectives"]
    absent = {
        "match_id": pl.UInt32, "wait_ns": pl.Int64, "duration_ns": pl.Int64, "start_ns": pl.Int64, "step": pl.Int32,
        "busbw_gbps": pl.Float64, "dtype": pl.String, "size_bytes": pl.UInt64, "group_size": pl.Int32,
        "process_group": pl.String,
    }  # fmt: skip
    table = table.with_columns(pl.lit(None, t).alias(c) for c, t in absent.items() if c not in table.columns)
    made = {
        "waits": waiting.waits(table),
        "collective_ranks": waiting.collective_ranks(table),
        "collective_statistics": waiting.collective_statistics(table),
    }
    result.update({name: frame for name, frame in made.items() if frame.height})
    return result


def _without_device_numbers(tables: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Tables without the ranks that are numbers of GPUs, where several files number theirs; nothing otherwise."""
    info = tables.get("trace_info")
    if info is None or not {"rank_origin", "input_id"} <= set(info.columns):
        return {}
    numbered = info.filter(pl.col("rank_origin") == "device")["input_id"].unique()
    if numbered.len() < 2:
        return {}
    alone = pl.when(~pl.col("input_id").is_in(numbered.implode())).then("rank").alias("rank")
    return {
        name: frame.with_columns(alone)
        for name, frame in tables.items()
        if {"rank", "input_id"} <= set(frame.columns)
    }


def _jobs(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
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
    jobs = sizes.with_columns(
        job=pl.struct("period", pl.col("size").fill_null(-1)).rank("dense").cast(pl.Int32)
    )
    return jobs.select("input_id", "job") if jobs["job"].n_unique() > 1 else none


def _jobs_text(info: pl.DataFrame) -> str:
    jobs = info.group_by("job").agg(pl.col("world_size").max(), count=pl.len()).sort("job")
    parts = [
        f"{n} of {'an unknown number of' if w is None else w} ranks"
        for w, n in jobs.select("world_size", "count").iter_rows()
    ]
    return f"the traces are of {jobs.height} jobs, each compared by itself: {'; '.join(parts[:8])}"


def _ranks_of_job(collectives: pl.DataFrame) -> pl.DataFrame:
    """Ranks of the job for records that know only the rank within their communicator (NCCL Inspector).

    A process is the rank that it has in the largest communicator, if that tells the processes apart; members of the
    others follow. Otherwise nothing changes.
    """
    if not {"host", "pid", "process_group"} <= set(collectives.columns):
        return collectives
    mine = (pl.col("source").cast(pl.String) == _COUNTED_BY_TYPE) & pl.col("pid").is_not_null()
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


def _peers_of_job(collectives: pl.DataFrame) -> pl.DataFrame:
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
    placed = groups.filter(
        (pl.col("by_place") == pl.col("count")) & (pl.col("by_name") < pl.col("count"))
    ).select("process_group", "group_ranks", placed=pl.lit(True))
    return (
        collectives.join(placed, on=["process_group", "group_ranks"], how="left", maintain_order="left")
        .with_columns(peer=pl.when("placed").then(inside.cast(pl.Int32)).otherwise("peer"))
        .drop("placed")
    )


def _transfers(collectives: pl.DataFrame) -> pl.DataFrame:
    """Rows of sends and receives that can be matched: their group is the pair and its direction."""
    if "peer" not in collectives.columns:
        return pl.DataFrame()
    op = pl.col("op").cast(pl.String)
    sends = op == "Send"
    rows = collectives.with_row_index("row").filter(
        op.is_in(_POINT_TO_POINT)
        & pl.col("rank").is_not_null()
        & pl.col("peer").is_not_null()
        & pl.col("source").cast(pl.String).is_in(_TRACED)
        & (pl.col("duration_ns") >= 0)
    )
    if rows.is_empty():
        return pl.DataFrame()
    missing = [pl.lit(None, pl.String).alias(c) for c in ("comms_id",) if c not in rows.columns]
    return (
        rows.with_columns(missing)
        .with_columns(
            src=pl.when(sends).then("rank").otherwise("peer"), dst=pl.when(sends).then("peer").otherwise("rank")
        )
        .select(
            "row", "rank", "process_group", "group_ranks", "seq", pl.col("op", "source").cast(pl.String),
            "size_bytes", "dtype", "start_ns", "duration_ns", "step", "comms_id",
            group=pl.concat_str(
                pl.lit("p2p"), _job_of(rows), "source", pl.col("process_group").fill_null("?"),
                pl.concat_str("src", "dst", separator=">"), separator="|",
            ),
            sign=pl.struct("size_bytes", "dtype").hash(),
            end_ns=pl.col("start_ns") + pl.col("duration_ns"),
        )
        .unique(["rank", "op", "start_ns", "duration_ns", "group", "seq"], keep="first", maintain_order=True)
        .with_columns(seq=_number_in_pair())
        .sort("group", "rank", "start_ns", "seq")
    )  # fmt: skip


def _number_in_pair() -> pl.Expr:
    """Inspector numbers a rank's transfers, whoever the peer is; in a pair their order counts, if none is missing."""
    sends = pl.col("op") == "Send"
    whole = sends.sum().over("group") == (~sends).sum().over("group")
    order = pl.col("seq").rank("ordinal").over("group", "op").cast(pl.Int64)
    return pl.when(pl.col("source") != _COUNTED_BY_TYPE).then("seq").when(whole).then(order)


def _candidates(collectives: pl.DataFrame) -> pl.DataFrame:
    """Rows that can be matched, one per event even if a file was given twice, with group and signature."""
    wanted = ["rank", "process_group", "group_ranks", "seq", "op", "size_bytes", "dtype", "start_ns", "duration_ns",
              "step", "source", "comms_id", "job"]  # fmt: skip
    missing = [pl.lit(None, pl.String).alias(c) for c in wanted if c not in collectives.columns]
    size = (
        pl.when(pl.col("op").cast(pl.String).is_in(_PER_RANK_SIZE)).then(None).otherwise(pl.col("size_bytes"))
    )
    return (
        collectives.with_row_index("row")
        .with_columns(missing)
        .select("row", *wanted)
        .with_columns(pl.col("op", "source").cast(pl.String))
        .filter(
            pl.col("rank").is_not_null()
            & pl.col("op").is_in(SYNCHRONISING)
            & pl.col("source").is_in(_TRACED)
            & (pl.col("duration_ns") >= 0)
        )
        .unique(
            ["rank", "op", "start_ns", "duration_ns", "process_group", "seq"],
            keep="first",
            maintain_order=True,
        )
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


def _job_of(rows: pl.DataFrame) -> pl.Expr:
    return pl.col("job").cast(pl.String).fill_null("") if "job" in rows.columns else pl.lit("")


def _hosts(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    info = tables.get("trace_info")
    if info is None or "host" not in info.columns:
        return pl.DataFrame(schema={"rank": pl.Int32, "host": pl.String})
    return info.filter(pl.col("rank").is_not_null()).select("rank", "host").unique("rank", keep="first")


def _match(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with ``key`` (null = unmatched) and ``match_method``."""
    point = pl.col("op").is_in(_POINT_TO_POINT)
    kind = pl.when(pl.col("source") == _COUNTED_BY_TYPE).then("op").otherwise(pl.lit(""))
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
    numbered = numbered.with_columns(
        nth=pl.int_range(pl.len()).over("group", "rank", "kind", "number", "sign"),
    )
    shared = pl.col("rank").n_unique().over("group", "kind", "number") > 1
    numbered = numbered.with_columns(
        all_seq=pl.col("number").is_not_null() & ((~point) | (shared.mean().over("group") >= _SAME_NUMBERS)),
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
        return rows.clear().with_columns(
            key=pl.lit(None, pl.UInt64), match_method=pl.lit(None, dtype=_METHODS)
        )
    counts = (
        rows.group_by("group", "rank").len().sort("group", "len", "rank", descending=[False, True, False])
    )
    lead = counts.unique("group", keep="first", maintain_order=True).select("group", lead="rank")
    marked = rows.join(lead, on="group")
    reference = marked.filter(pl.col("rank") == pl.col("lead")).select(
        "group", "sign", "row", ref_row="row", ref_start="start_ns", ref_end="end_ns", end_ns="end_ns"
    )
    others = marked.filter(pl.col("rank") != pl.col("lead")).sort("end_ns")
    near = (
        others.join_asof(
            reference.drop("row").sort("end_ns"), on="end_ns", by=["group", "sign"], strategy="nearest",
            check_sortedness=False,
        )
        .filter(
            pl.col("ref_row").is_not_null()
            & (pl.max_horizontal("start_ns", "ref_start") <= pl.min_horizontal("end_ns", "ref_end"))
        )
        .with_columns(distance=(pl.col("end_ns") - pl.col("ref_end")).abs())
        .sort("distance")
        .unique(["ref_row", "rank"], keep="first", maintain_order=True)
    )  # fmt: skip
    pairs = pl.concat([near.select("row", "ref_row"), reference.select("row", "ref_row")])
    return rows.join(pairs, on="row").with_columns(
        key=pl.struct("group", "ref_row").hash(), match_method=pl.lit("time", dtype=_METHODS)
    )


def _members(keyed: pl.DataFrame) -> pl.DataFrame:
    """Matches of at least two ranks, each rank once, numbered in order of time."""
    whole = keyed.filter(
        (pl.len().over("key") > 1) & (pl.col("rank").n_unique().over("key") == pl.len().over("key"))
    )
    at = pl.coalesce(pl.col("start_ns"), pl.col("seq"))
    return whole.with_columns(first=at.min().over("key")).with_columns(
        match_id=pl.struct("first", "key").rank("dense") - 1
    )


def _clocks(members: pl.DataFrame) -> pl.DataFrame:
    """Per rank: how far its ends lie from the others' ends, and whether its clock can be compared.

    Members of a synchronising collective end together, so a constant offset of the ends is one of the clocks.
    """
    ends = members.with_columns(offset=pl.col("end_ns") - pl.col("end_ns").median().over("match_id"))
    table = ends.group_by("rank").agg(
        host=pl.col("host").first(),
        offset_ns=pl.col("offset").median().cast(pl.Int64),
        typical=pl.col("duration_ns").median(),
    )
    hosts = table["host"].drop_nulls().n_unique()
    known = table["host"].null_count() == 0
    if known:
        comparable = pl.lit(hosts == 1)
    else:
        comparable = (
            pl.col("offset_ns").abs() <= pl.max_horizontal(pl.lit(_CLOCK_SLACK_NS), 0.2 * pl.col("typical"))
        ) & pl.lit(hosts <= 1)
    return table.with_columns(comparable=comparable).drop("typical").sort("rank")


def _clock_text(clocks: pl.DataFrame) -> str:
    hosts = clocks["host"].drop_nulls().n_unique()
    if hosts > 1:
        return (
            f"the traces come from {hosts} hosts, whose clocks are not proven equal: start skew is not judged"
        )
    worst = clocks.sort(pl.col("offset_ns").abs(), descending=True).row(0, named=True)
    return (
        f"the ends of matched collectives differ by {abs(worst['offset_ns']) / 1e6:.3f} ms on rank {worst['rank']}: "
        "the traces have no common clock, start skew is not judged"
    )


def _without_other_side(rows: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """Sends and receives that were not matched although the other rank was recorded: ``rank, op, src, dst``."""
    ends = pl.col("group").str.extract_groups(r"\|(?<src>[0-9]+)>(?<dst>[0-9]+)$")
    return (
        rows.filter(pl.col("op").is_in(_POINT_TO_POINT))
        .join(members.select("row"), on="row", how="anti")
        .with_columns(ends.alias("ends"))
        .unnest("ends")
        .with_columns(pl.col("src", "dst").cast(pl.Int32, strict=False))
        .filter(pl.all_horizontal(pl.col("src", "dst").is_in(rows["rank"].unique().implode())))
        .select("rank", "op", "src", "dst")
    )


def _alone_text(alone: pl.DataFrame) -> str:
    worst = (
        alone.group_by("op", "src", "dst")
        .agg(count=pl.len())
        .sort("count", "src", "dst", descending=[True, False, False])
    )
    op, src, dst, count = worst.row(0)
    other = "receive" if op == "Send" else "send"
    return (
        f"{alone.height:,} sends and receives have no other side in the trace of the peer (most: {count:,} from rank "
        f"{src} to rank {dst} without the {other}): events were lost, or the traces do not show the same steps; "
        "waiting and speed are unknown for them"
    )


def _add_unmatched(result: dict[str, pl.DataFrame], count: int) -> None:
    _add_note(
        result,
        "trace-metadata-missing",
        f"{count:,} collectives could not be matched over the ranks (no sequence numbers, and the ranks show different "
        "sequences): skew and waiting time are unknown for them; record the same steps on all ranks",
    )


def _add_note(result: dict[str, pl.DataFrame], kind: str, detail: str) -> None:
    row = pl.DataFrame(
        {"input_id": [None], "line": [None], "kind": [kind], "detail": [detail]},
        schema={"input_id": pl.UInt16, "line": pl.UInt64, "kind": pl.String, "detail": pl.String},
    )
    notes = result.get("notes")
    result["notes"] = row if notes is None else pl.concat([notes, row], how="diagonal_relaxed")
