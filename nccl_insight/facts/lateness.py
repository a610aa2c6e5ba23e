"""When each rank arrived in each matched collective, and how much of that was not its own doing.

A rank that is late in one group has often only waited in another: for a slow member of its tensor-parallel group, or
for the stage before it in a pipeline. Members of a collective leave it together, so the time from there to a member's
arrival in the group's next collective is what the member took in between. Waiting inside other communication, as far
as it held the rank up, is taken off that time; what remains is the member's own, and it needs no common clock.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from nccl_insight.readers import intervals
from nccl_insight.tables.run import Run

SYNCHRONISING: Final = ("AllReduce", "AllGather", "ReduceScatter", "AllToAll", "AllToAllv", "Barrier")
_NEXT_IN_STREAM_NS: Final = 30_000
_TRACED: Final = ("kernel", "cpu_op", "inspector")


def arrivals_of_ranks(run: Run) -> pl.DataFrame:
    """Members of matched synchronising collectives.

    Columns: ``match_id, group, label, rank, members, matched, step, start_ns, duration_ns, wait_ns, own_ns,
    inherited_ns, by_clock, source``. ``group`` is a number of the process group, ``label`` its name. ``own_ns`` is the
    arrival as far as the rank itself is the reason, on a scale that only members of one collective share;
    ``inherited_ns`` is the waiting elsewhere that was taken off. Where neither a clock nor a collective before tells
    the arrival, the row is left out. ``by_clock`` says that starts on a common clock were used.
    """
    return run.memo("facts.lateness.arrivals_of_ranks", _arrivals_of_ranks)


def is_engine_copy() -> pl.Expr:
    """Rows of copy-engine collectives, in which nobody waits."""
    return (pl.col("source").cast(pl.String) == "kernel") & pl.col("kernel").is_null()


def _arrivals_of_ranks(run: Run) -> pl.DataFrame:
    table = run.table("collectives")
    if "match_id" not in table.columns:
        return pl.DataFrame()
    matched = table.filter(
        pl.col("match_id").is_not_null() & pl.col("source").cast(pl.String).is_in(_TRACED) & ~is_engine_copy()
    )
    rows = matched.filter(pl.col("op").cast(pl.String).is_in(SYNCHRONISING)).select(
        "match_id", "rank", "step", "start_ns", "duration_ns", "wait_ns", "skew_ns", "group_ranks", "device", "stream",
        pl.col("source").cast(pl.String),
        group=pl.struct("source", "process_group", "group_ranks").rank("dense"),
        label=pl.col("process_group"),
        members=pl.coalesce(pl.col("group_size"), pl.col("group_ranks").list.len().cast(pl.Int32)),
        matched=pl.len().over("match_id"),
    )  # fmt: skip
    if rows.is_empty():
        return rows
    by_clock = rows["skew_ns"].null_count() == 0
    longest = pl.col("duration_ns").max().over("match_id")
    plain = pl.col("skew_ns") if by_clock else longest - pl.col("duration_ns")
    others = rows["group"].n_unique() > 1 or matched.height > rows.height
    if not others or rows["start_ns"].null_count():
        return rows.with_columns(
            own_ns=plain, inherited_ns=pl.lit(0, pl.Int64), by_clock=pl.lit(by_clock)
        ).drop("skew_ns", "device", "stream")
    return _own(rows, table, by_clock)


def _own(rows: pl.DataFrame, table: pl.DataFrame, by_clock: bool) -> pl.DataFrame:
    """The rows with the time that each member took since it was last together with the others."""
    begin = table["start_ns"].min() if by_clock else None
    sequence = rows.sort("group", "rank", "start_ns").with_columns(
        before=pl.col("match_id").shift(1).over("group", "rank"),
        released=(pl.col("start_ns") + pl.col("duration_ns")).shift(1).over("group", "rank"),
    )
    together = pl.col("before").n_unique().over("match_id") == 1
    known = (
        sequence.filter(together)
        .with_columns(released=pl.coalesce("released", pl.lit(begin, pl.Int64)))
        .filter(pl.col("released").is_not_null().all().over("match_id"))
        .with_columns(pl.min_horizontal("released", "start_ns"))
    )
    waits = _waits(table)
    held = intervals.union(waits.select("rank", start_ns="exposed_from", end_ns="exposed_to"), by="rank")
    queued = intervals.union(waits.select("run", start_ns="start_ns", end_ns="hidden_to"), by="run")
    place = ["rank", "device", "stream", "start_ns"]
    runs = waits.select(*place, "run").unique(place, keep="first")
    windows = known.join(runs, on=place, how="left", nulls_equal=True, maintain_order="left").select(
        "rank", "run", start_ns="released", end_ns="start_ns"
    )
    inherited = intervals.covered(windows, held, by="rank") + intervals.covered(windows, queued, by="run")
    return (
        known.with_columns(inherited_ns=inherited, by_clock=pl.lit(by_clock))
        .with_columns(own_ns=pl.col("start_ns") - pl.col("released") - pl.col("inherited_ns"))
        .drop("skew_ns", "before", "released", "device", "stream")
    )


def _waits(table: pl.DataFrame) -> pl.DataFrame:
    """Waiting inside communication: ``rank, device, stream, start_ns, run, hidden_to, exposed_from, exposed_to``.

    A collective's waiting comes first, its transfer last, and compute that hides it runs at its beginning. So what is
    exposed beyond the transfer, ``exposed_from..exposed_to``, was waiting that held the whole rank up; the waiting
    before that, ``start_ns..hidden_to``, only held up what stands behind it in its stream: ``run`` numbers operations
    that follow each other directly in one stream. Where a member was not recorded, or the row has no match, the
    transfer is taken from the fastest of its kind.
    """
    kinds = ["op", "size_bytes", "dtype", "group_size", "process_group"]
    whole = pl.coalesce(pl.col("group_size"), pl.col("group_ranks").list.len().cast(pl.Int32))
    point = pl.col("op").cast(pl.String).is_in(["Send", "Recv"])
    complete = point | (pl.col("matched_ranks") >= whole).fill_null(True)
    rows = (
        table.filter(
            pl.col("rank").is_not_null()
            & pl.col("start_ns").is_not_null()
            & (pl.col("duration_ns") > 0)
            & ~is_engine_copy()
        )
        .with_columns(fastest=pl.col("duration_ns").min().over(kinds))
        .with_columns(
            transfer=pl.when(pl.col("min_duration_ns").is_not_null() & complete)
            .then("min_duration_ns")
            .otherwise("fastest"),
            end_ns=pl.col("start_ns") + pl.col("duration_ns"),
        )
        .sort("rank", "device", "stream", "start_ns")
        .with_columns(
            apart=(pl.col("start_ns") - pl.col("end_ns").shift(1).over("rank", "device", "stream"))
            > _NEXT_IN_STREAM_NS
        )
    )
    exposed = pl.min_horizontal(pl.coalesce("exposed_ns", "duration_ns"), "duration_ns")
    through = pl.col("end_ns") - pl.col("transfer")
    return rows.select(
        "rank", "device", "stream", "start_ns", run=pl.col("apart").fill_null(True).cum_sum(),
        hidden_to=pl.min_horizontal(pl.col("end_ns") - exposed, through), exposed_from=pl.col("end_ns") - exposed,
        exposed_to=through,
    )  # fmt: skip
