"""The timeline of collectives alone: CPU operations, NCCL Inspector, traces that keep nothing else.

What a rank did between two operations, and before the first one in its step, counts as its work. Records without
starts are put behind each other: members of a collective leave it together, so one that was shorter in it than another
had come later by the difference.
"""

from collections import Counter

import polars as pl

from nccl_insight.base.grouping import grouped
from nccl_insight.facts.lateness.waiting import is_engine_copy
from nccl_insight.readers.kernels import COMM, COMPUTE
from nccl_insight.tables.run import Run

_SOURCES = ("kernel", "cpu_op", "inspector", "nccl_tests")
_WORKS = 100
"""Less between two operations is no work."""


def recorded(run: Run) -> pl.DataFrame | str:
    """Rows as the replay takes them, of matched operations and of what stands between them, or why there are none."""
    rows = run.table("collectives").filter(
        pl.col("rank").is_not_null()
        & (pl.col("duration_ns") > 0)
        & pl.col("source").cast(pl.String).is_in(_SOURCES)
        & ~is_engine_copy()
    )
    if rows.drop_nulls("match_id")["rank"].n_unique() < 2:
        return "collectives of fewer than two ranks could be matched"
    rows = rows.select(
        "input_id",
        "rank",
        "step",
        "start_ns",
        "duration_ns",
        "size_bytes",
        "process_group",
        "group_ranks",
        "peer",
        pl.col("op").cast(pl.String),
        meeting=pl.col("match_id").cast(pl.Int64),
    )
    if rows["start_ns"].null_count():
        rows = rows.drop_nulls("meeting")
        members = rows.group_by("meeting").agg(pl.col("rank").sort())["rank"]
        if members.n_unique() != members.explode().n_unique() / members.list.len().max():  # type: ignore[operator]
            return "records of several process groups tell no starts"
        starts = _placed(rows)
        if starts is None:
            return "the ranks record their collectives in different orders"
        rows = rows.with_columns(start_ns=starts)
    rows = rows.sort("rank", "start_ns").with_columns(
        end_ns=pl.col("start_ns") + pl.col("duration_ns"),
        name=pl.struct("op", "size_bytes", "process_group").hash(1),
        kind=pl.lit(COMM, pl.Int8),
        stream=pl.lit(0, pl.Int64),
        device=pl.lit(0, pl.Int32),
        by_order=False,
    )
    steps = run.table("steps").select("input_id", "rank", "step", begun="start_ns").drop_nulls("step")
    before = pl.col("end_ns").cum_max().shift(1).over("rank").fill_null(pl.col("begun"))
    work = (
        rows.join(steps.unique(["input_id", "rank", "step"]), on=["input_id", "rank", "step"], how="left")
        .with_columns(begun=before)
        .filter(pl.col("start_ns") - pl.col("begun") > _WORKS)
        .select(
            "input_id",
            "rank",
            "step",
            "stream",
            "device",
            "by_order",
            start_ns="begun",
            end_ns="start_ns",
            name=pl.col("name").hash(2),
            kind=pl.lit(COMPUTE, pl.Int8),
        )
    )
    return pl.concat([rows.drop("duration_ns"), work], how="diagonal_relaxed")


def _placed(rows: pl.DataFrame) -> pl.Series | None:
    """A start of each row, the earliest at which all ranks keep their order; None where the orders contradict."""
    ranks, meetings, took = (rows[c].to_list() for c in ("rank", "meeting", "duration_ns"))
    queues: dict[int, list[int]] = grouped((rank, row) for row, rank in enumerate(ranks))
    missing = Counter(meetings)
    heads: dict[int, list[int]] = {}
    at = dict.fromkeys(queues, 0)
    free = dict.fromkeys(queues, 0)
    starts = [0] * len(ranks)
    come = list(queues)
    done = 0
    while come:
        rank = come.pop()
        if at[rank] == len(queues[rank]):
            continue
        row = queues[rank][at[rank]]
        members = heads.setdefault(meetings[row], [])
        members.append(row)
        missing[meetings[row]] -= 1
        if missing[meetings[row]]:
            continue
        end = max(free[ranks[m]] + took[m] for m in members)
        for m in members:
            starts[m] = end - took[m]
            free[ranks[m]] = end
            at[ranks[m]] += 1
        done += len(members)
        come += [ranks[m] for m in members]
    return pl.Series(starts, dtype=pl.Int64) if done == len(ranks) else None
