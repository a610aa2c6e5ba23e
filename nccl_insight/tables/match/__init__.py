"""Matching of one collective over the traces of several ranks, and what only the comparison tells.

``jobs`` says which job, rank and peer a record is of, ``candidates`` which rows can have partners, ``partners`` which
of them are one operation. Here also: whether the clocks of ranks can be compared.
"""

from collections.abc import Mapping
from typing import Final

import polars as pl

from nccl_insight.tables import waiting
from nccl_insight.tables.declared import frame
from nccl_insight.tables.join import join_log
from nccl_insight.tables.match.candidates import POINT_TO_POINT, TOGETHER, candidates, transfers
from nccl_insight.tables.match.jobs import jobs_of, jobs_text, peers_of_job, ranks_of_job, without_device_numbers
from nccl_insight.tables.match.partners import matched, members_of
from nccl_insight.tables.notes import CLOCKS, JOBS, LACKS, note_rows
from nccl_insight.tables.schema import empty, shaped

_CLOCK_SLACK_NS: Final = 100_000
_EXPLAINED: Final = 0.5


def clocks_of(members: pl.DataFrame) -> pl.DataFrame:
    """Per rank: how far its ends lie from the others' ends, and whether its clock can be compared.

    Members of a synchronising collective end together, so a constant offset of the ends is one of the clocks. Clocks of
    one host are taken for equal, unless ends are offset and durations do not tell why: GPUs whose time the profiler
    translated wrongly.
    """
    ends = members.with_columns(
        offset=pl.col("end_ns") - pl.col("end_ns").median().over("match_id"),
        longer=pl.col("duration_ns") - pl.col("duration_ns").median().over("match_id"),
    )
    table = ends.group_by("rank").agg(
        host=pl.col("host").first(),
        offset_ns=pl.col("offset").median().cast(pl.Int64),
        typical=pl.col("duration_ns").median(),
        longer=pl.col("longer").median(),
    )
    hosts = table["host"].drop_nulls().n_unique()
    known = table["host"].null_count() == 0
    offset = pl.col("offset_ns")
    near = offset.abs() <= pl.max_horizontal(pl.lit(_CLOCK_SLACK_NS), 0.2 * pl.col("typical"))
    if known:
        near |= pl.col("longer") * offset.sign() >= _EXPLAINED * offset.abs()
    return table.with_columns(comparable=near & pl.lit(hosts <= 1)).drop("typical", "longer").sort("rank")


def clocks_text(clocks: pl.DataFrame) -> str:
    """Why the clocks cannot be compared, for a note."""
    hosts = clocks["host"].drop_nulls().n_unique()
    if hosts > 1:
        return f"the traces come from {hosts} hosts, whose clocks are not proven equal: start skew is not judged"
    worst = clocks.sort(pl.col("offset_ns").abs(), descending=True).row(0, named=True)
    return (
        f"the ends of matched collectives differ by {abs(worst['offset_ns']) / 1e6:.3f} ms on rank {worst['rank']}: "
        "the traces have no common clock, start skew is not judged"
    )


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
    unranked = without_device_numbers(tables)
    if unranked:
        tables = result = {**result, **unranked}
        collectives = result["collectives"]
        text = "several profiles number their GPUs from 0 each and name no ranks, so their GPUs are not compared"
        _add_note(result, LACKS, f"{text}; give the profile of one host alone")
    jobs = jobs_of(tables)
    if jobs.height:
        result["trace_info"] = tables["trace_info"].join(jobs, on="input_id", how="left", maintain_order="left")
        tables = {**tables, "collectives": collectives.join(jobs, on="input_id", how="left", maintain_order="left")}
        _add_note(result, JOBS, jobs_text(result["trace_info"]))
    collectives = peers_of_job(ranks_of_job(join_log(tables)))
    rows = pl.concat([candidates(collectives), transfers(collectives)], how="diagonal_relaxed")
    result["collectives"] = collectives
    if rows["rank"].n_unique() < 2:
        return _with_statistics(result)
    stated = shaped(tables.get("trace_info", empty("trace_info")), {"rank": pl.Int32, "host": pl.String})
    hosts = stated.drop_nulls("rank").unique("rank", keep="first")
    keyed = matched(rows.join(hosts, on="rank", how="left"))
    members = members_of(keyed)
    if members.is_empty():
        _add_unmatched(result, rows.height)
        return _with_statistics(result)
    together = members.filter(pl.col("op").is_in(TOGETHER))
    clocks = clocks_of(together if together.height else members)
    result["trace_clocks"] = clocks
    comparable = bool(clocks["comparable"].all())
    facts = members.with_columns(
        skew_ns=pl.when(pl.col("op").is_in(TOGETHER)).then(
            pl.col("start_ns") - pl.col("start_ns").min().over("match_id")
        )
        if comparable
        else pl.lit(None),
        min_duration_ns=pl.col("duration_ns").min().over("match_id"),
        wait_ns=pl.col("duration_ns") - pl.col("duration_ns").min().over("match_id"),
        matched_ranks=pl.len().over("match_id").cast(pl.Int32),
    )
    match_id, skew = pl.col("match_id").cast(pl.UInt32), pl.col("skew_ns").cast(pl.Int64)
    facts = facts.select("row", match_id, "match_method", "matched_ranks", skew, "min_duration_ns", "wait_ns")
    kept = [c for c in collectives.columns if c not in facts.columns]
    result["collectives"] = (
        collectives.select(kept)
        .with_row_index("row")
        .join(facts, on="row", how="left", maintain_order="left")
        .drop("row")
    )
    if not comparable:
        _add_note(result, CLOCKS, clocks_text(clocks))
    alone = _without_other_side(rows, members)
    if alone.height > 0.02 * rows.filter(pl.col("op").is_in(POINT_TO_POINT)).height:
        _add_note(result, LACKS, _alone_text(alone))
    if (missing := rows.height - members.height - alone.height) > 0.02 * rows.height:
        _add_unmatched(result, missing)
    return _with_statistics(result)


def _with_statistics(result: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Adds ``waits``, ``collective_ranks`` and ``collective_statistics`` (:mod:`nccl_insight.tables.waiting`)."""
    table = result["collectives"]
    absent = frame("""match_id u32, wait_ns i64, duration_ns i64, start_ns i64, step i32, busbw_gbps f64, dtype str,
        size_bytes u64, group_size i32, process_group str""")
    table = table.with_columns(pl.lit(None, t).alias(c) for c, t in absent.items() if c not in table.columns)
    made = {
        "waits": waiting.waits(table),
        "collective_ranks": waiting.collective_ranks(table),
        "collective_statistics": waiting.collective_statistics(table),
    }
    result.update({name: frame for name, frame in made.items() if frame.height})
    return result


def _without_other_side(rows: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """Sends and receives that were not matched although the other rank was recorded: ``rank, op, src, dst``."""
    ends = pl.col("group").str.extract_groups(r"\|(?<src>[0-9]+)>(?<dst>[0-9]+)$")
    return (
        rows.filter(pl.col("op").is_in(POINT_TO_POINT))
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
        LACKS,
        f"{count:,} collectives could not be matched over the ranks (no sequence numbers, and the ranks show different "
        "sequences): skew and waiting time are unknown for them; record the same steps on all ranks",
    )


def _add_note(result: dict[str, pl.DataFrame], kind: str, detail: str) -> None:
    row = note_rows(None, (kind, detail))
    notes = result.get("notes")
    result["notes"] = row if notes is None else pl.concat([notes, row], how="diagonal_relaxed")
