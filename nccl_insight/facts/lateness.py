"""When each rank arrived in each matched collective, and how much of that was not its own doing.

A rank that is late in one group has often only waited in another: for a slow member of its tensor-parallel group, or
for the stage before it in a pipeline. Members of a collective leave it together, so the time from there to a member's
arrival in the group's next collective is what the member took in between. Waiting inside other communication, as far
as it held the rank up, is taken off that time; what remains is the member's own, and it needs no common clock.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from nccl_insight.base.bandwidth import SYNCHRONISING
from nccl_insight.readers import intervals
from nccl_insight.tables.run import Run, fact

_NEXT_IN_STREAM_NS: Final = 30_000
_AFTER_ANOTHER_NS: Final = 6_000
"""So shortly after the end of an operation in another stream begins what waits for it by an event."""
_HANDOVER_NS: Final = 5_000
"""An operation that begins so shortly before the end of another may as well have waited for it."""
_HELD: Final = 0.2
"""Share of a transfer that compute must leave exposed for the collective to have held a rank up."""
_RARE: Final = 0.2
_ALIKE: Final = 0.8
_TRACED: Final = ("kernel", "cpu_op", "inspector", "nccl_tests")


def _held() -> pl.Expr:
    """The last part of an operation without compute."""
    return pl.min_horizontal(pl.coalesce("held_ns", "exposed_ns", "duration_ns"), "duration_ns")


def _shown_wait() -> pl.Expr:
    """The part of ``wait_ns``, with which an operation begins, in its last part without compute."""
    return pl.max_horizontal(pl.col("wait_ns") + _held() - pl.col("duration_ns"), 0)


def is_engine_copy() -> pl.Expr:
    """Rows of copy-engine collectives, in which nobody waits."""
    return (pl.col("source").cast(pl.String) == "kernel") & pl.col("kernel").is_null()


@fact
def arrivals_of_ranks(run: Run) -> pl.DataFrame:
    """Members of matched synchronising collectives.

    Columns: ``match_id, group, label, rank, members, matched, step, start_ns, duration_ns, wait_ns, shown_wait_ns,
    own_ns, limit_ns, inherited_ns, by_clock, source, since``. ``shown_wait_ns`` is waiting while the rank did not
    compute. ``group`` is a number of the process group, ``label`` its name.
    ``own_ns`` is the arrival as far as the rank itself is the reason, on a scale that only members of one collective
    share; where it stood in a queue behind other communication it may have been ready from ``own_ns`` to ``limit_ns``.
    Arrivals with one ``since`` count from the same moment. ``inherited_ns`` is the communication elsewhere that was
    taken off. For pipelines without any collective a row is a
    step of a stage. Where neither a clock nor a collective before tells
    the arrival, the row is left out. ``by_clock`` says that starts on a common clock were used.
    """
    table = run.table("collectives")
    matched = table.filter(
        pl.col("match_id").is_not_null() & pl.col("source").cast(pl.String).is_in(_TRACED) & ~is_engine_copy()
    )
    rows = matched.filter(pl.col("op").cast(pl.String).is_in(SYNCHRONISING)).select(
        "match_id", "rank", "step", "start_ns", "duration_ns", "wait_ns", "skew_ns", "group_ranks", "device", "stream",
        "exposed_ns", "held_ns",
        pl.col("source").cast(pl.String),
        shown_wait_ns=_shown_wait(),
        group=pl.struct("source", "process_group", "group_ranks", "job").rank("dense"),
        label=pl.col("process_group"),
        members=pl.coalesce(pl.col("group_size"), pl.col("group_ranks").list.len().cast(pl.Int32)),
        matched=pl.len().over("match_id"),
    )  # fmt: skip
    if rows.is_empty():
        return stages(run)
    by_clock = rows["skew_ns"].null_count() == 0
    longest = pl.col("duration_ns").max().over("match_id")
    others = rows["group"].n_unique() > 1 or matched.height > rows.height
    if not others or rows["start_ns"].null_count():
        # Kernels end together; clocks of unknown hosts agree only so far, and may drift apart.
        kernels = bool((rows["source"] == "kernel").all())
        by_clock &= not (kernels and run.table("trace_clocks")["host"].null_count())
        plain = pl.col("skew_ns") if by_clock else longest - pl.col("duration_ns")
        return rows.with_columns(
            own_ns=plain,
            limit_ns=plain,
            inherited_ns=pl.lit(0, pl.Int64),
            by_clock=pl.lit(by_clock),
            since=pl.col("match_id"),
        ).drop("skew_ns", "device", "stream", "exposed_ns", "held_ns")
    return _own(rows, table, by_clock)


def _own(rows: pl.DataFrame, table: pl.DataFrame, by_clock: bool) -> pl.DataFrame:
    """The rows with the time that each member took since it was last together with the others.

    That was at the end of the group's last collective that held up all members; one that ran under compute leaves
    everybody where they were. In a group of which no collective ever held up all, what a member took from its own start
    of one to its own start of the next counts: of those that waited in it, compute ran meanwhile.
    """
    begin = table["start_ns"].min() if by_clock else None
    sequence = rows.sort("group", "rank", "start_ns").with_columns(
        held_all=(_held() > _HELD * pl.col("duration_ns").min().over("match_id")).all().over("match_id"),
        end_ns=pl.col("start_ns") + pl.col("duration_ns"),
    )
    never = ~pl.col("held_all").any().over("group")
    blocking = pl.col("held_all") | never
    sequence = sequence.with_columns(
        before=pl.when(blocking).then("match_id").shift(1).forward_fill().over("group", "rank"),
        released=pl.when(never)
        .then("start_ns")
        .when(blocking)
        .then("end_ns")
        .shift(1)
        .forward_fill()
        .over("group", "rank"),
    )
    together = pl.col("before").n_unique().over("match_id") == 1
    known = (
        sequence.filter(together)
        .with_columns(released=pl.coalesce("released", pl.lit(begin, pl.Int64)))
        .filter(pl.col("released").is_not_null().all().over("match_id"))
        .with_columns(pl.min_horizontal("released", "start_ns"))
    )
    known = _without_lost(known, table, "released", pl.col("start_ns"))
    waits = _waits(table)
    held = intervals.union(waits.select("rank", start_ns="exposed_from", end_ns="end_ns"), by="rank")
    queued = intervals.union(waits.select("run", start_ns="start_ns", end_ns="exposed_from"), by="run")
    place = ["rank", "device", "stream", "start_ns"]
    runs = waits.select(*place, run="behind").unique(place, keep="first")
    windows = known.join(runs, on=place, how="left", nulls_equal=True, maintain_order="left").select(
        "rank", "run", start_ns="released", end_ns="start_ns"
    )
    elapsed = pl.col("start_ns") - pl.col("released")
    return (
        known.with_columns(
            inherited_ns=intervals.covered(windows, held, by="rank"),
            queued_ns=intervals.covered(windows, queued, by="run"),
            by_clock=pl.lit(by_clock),
        )
        .with_columns(limit_ns=elapsed - pl.col("inherited_ns"))
        .with_columns(own_ns=pl.col("limit_ns") - pl.col("queued_ns"), since=pl.col("before").fill_null(0))
        .drop(
            "before",
            "skew_ns",
            "released",
            "device",
            "stream",
            "queued_ns",
            "held_all",
            "end_ns",
            "exposed_ns",
            "held_ns",
        )
    )


def _without_lost(rows: pl.DataFrame, table: pl.DataFrame, begin: str, end: pl.Expr) -> pl.DataFrame:
    """The matches in which no member's trace lost an operation from ``begin`` to ``end``: it may have waited there.

    An operation is lost where a rank lacks a number that another member of the group, or of the pair, has. Where that
    is so often, the members number differently, and it says nothing. Both ends of a pair number their transfers alike
    only where each pair counts for itself; else a rank counts all its sends and receives in the group together.
    """
    op = pl.col("op").cast(pl.String)
    point = op.is_in(["Send", "Recv"])
    first, second = pl.min_horizontal("rank", "peer"), pl.max_horizontal("rank", "peer")
    forth = (op == "Send") == (pl.col("rank") == first)
    lane = ["process_group", "low", "high", "forth"]
    numbered = table.filter(
        pl.col("seq").is_not_null() & pl.col("start_ns").is_not_null() & pl.col("rank").is_not_null()
    ).with_columns(
        pl.when(point).then(column).alias(name) for name, column in (("low", first), ("high", second), ("forth", forth))
    )
    shared = pl.col("rank").n_unique().over(*lane, "seq") > 1
    apart = point & ((shared.mean().over("process_group", point)) < _ALIKE)
    numbered = (
        numbered.with_columns(apart=apart)
        .with_columns(pl.when(pl.col("apart")).then(None).otherwise(n).alias(n) for n in lane[1:])
        .with_columns(
            number=pl.when(pl.col("apart")).then("seq").otherwise(pl.col("seq").rank("dense").over("apart", *lane)),
            end_ns=pl.col("start_ns") + pl.col("duration_ns"),
        )
        .sort("number", "start_ns")
        .with_columns(
            jump=pl.col("number").cast(pl.Int64).diff().over("rank", "apart", *lane) > 1,
            before=pl.col("end_ns").shift(1).over("rank", "apart", *lane),
        )
    )
    rare = pl.col("jump").mean().over("rank", "apart", *lane) < _RARE
    gaps = numbered.filter(pl.col("jump") & rare & (pl.col("before") < pl.col("start_ns")))
    if gaps.is_empty() or rows.is_empty():
        return rows
    holes = intervals.union(gaps.select("rank", start_ns="before", end_ns="start_ns"), by="rank")
    windows = rows.select("rank", start_ns=begin, end_ns=end)
    touched = rows.with_columns(touched=intervals.covered(windows, holes, by="rank") > 0)
    return touched.filter(~pl.col("touched").any().over("match_id")).drop("touched")


def _waits(table: pl.DataFrame) -> pl.DataFrame:
    """Communication as it held ranks up: ``rank, device, stream, start_ns, run, behind, exposed_from, end_ns``.

    The last part of an operation, ``exposed_from..end_ns``, in which the rank neither computed nor entered another
    operation, is what held the whole rank up, by waiting or by a slow link; neither is the rank's own. What is before
    only held up what stands behind it in its stream: ``run`` numbers operations that follow each other directly in one
    stream. ``behind`` is the run in which an operation stands: its own, or that of the operation in another stream at
    whose end it begins, as the reduction over replicas does that takes what a reduction over shards has left.
    """
    rows = (
        table.filter(
            pl.col("rank").is_not_null()
            & pl.col("start_ns").is_not_null()
            & (pl.col("duration_ns") > 0)
            & ~is_engine_copy()
        )
        .with_columns(end_ns=pl.col("start_ns") + pl.col("duration_ns"))
        .sort("rank", "device", "stream", "start_ns")
        .with_columns(
            apart=(pl.col("start_ns") - pl.col("end_ns").shift(1).over("rank", "device", "stream")) > _NEXT_IN_STREAM_NS
        )
    )
    rows = rows.select(
        "rank", "device", "stream", "start_ns", "end_ns", run=pl.col("apart").fill_null(True).cum_sum(),
        exposed_from=pl.col("end_ns") - _held(), first=pl.col("apart").fill_null(True),
    )  # fmt: skip
    rows = _behind(rows)
    # An operation that the rank entered meanwhile, not behind another in its stream, shows that it was going on.
    entered = rows.filter("first").select("rank", entered="start_ns").sort("entered")
    return (
        rows.with_columns(before_end=pl.col("end_ns") - _HANDOVER_NS)
        .sort("before_end", maintain_order=True)
        .join_asof(
            entered, left_on="before_end", right_on="entered", by="rank", strategy="backward", check_sortedness=False
        )
        .with_columns(exposed_from=pl.max_horizontal("exposed_from", "entered"))
        .drop("entered", "first", "before_end")
    )


def _behind(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with ``behind``: the run of what ended last before each began, if that was so shortly before."""
    ends = rows.select("rank", ended="end_ns", behind="run").sort("ended", "behind")
    return (
        rows.sort("start_ns", maintain_order=True)
        .join_asof(
            ends, left_on="start_ns", right_on="ended", by="rank", strategy="backward",
            tolerance=_AFTER_ANOTHER_NS, check_sortedness=False,
        )
        .with_columns(behind=pl.coalesce("behind", "run"))
        .drop("ended")
    )  # fmt: skip


@fact
def chains(run: Run) -> dict[int, int]:
    """Ranks that sends and receives connect, each with the number of what they form: pipelines, rings of contexts."""
    table = run.table("collectives")
    op = pl.col("op").cast(pl.String)
    forth = table.filter(op == "Send").select("rank", "peer")
    back = table.filter(op == "Recv").select(rank="peer", peer="rank")
    pairs = pl.concat([forth, back]).drop_nulls().unique()
    part: dict[int, int] = {}
    for a, b in pairs.sort("rank", "peer").iter_rows():
        low, high = sorted((part.setdefault(a, a), part.setdefault(b, b)))
        part.update({r: low for r, root in part.items() if root == high})
    return part


@fact
def stages(run: Run) -> pl.DataFrame:
    """Rows as of :func:`arrivals_of_ranks` for pipelines: own time of each stage in each step.

    A pipeline is what sends and receives connect, if no collective has two of its ranks: nothing else compares its
    stages. ``own_ns`` is the step less its exposed communication; only for steps that all ranks of the pipeline have.
    """
    table = run.table("collectives").filter(pl.col("match_id").is_not_null())
    op = pl.col("op").cast(pl.String)
    part = chains(run)
    steps = run.table("steps").filter(pl.col("step").is_not_null() & pl.col("rank").is_not_null())
    members = pl.DataFrame(
        {"rank": list(part), "group": list(part.values())}, schema={"rank": pl.Int32, "group": pl.UInt32}
    )
    met = table.filter(op.is_in(SYNCHRONISING)).select("match_id", "rank").join(members, on="rank")
    met = met.filter(pl.len().over("match_id", "group") > 1)
    members = members.filter(~pl.col("group").is_in(met["group"].unique().implode()))
    rows = (
        steps.join(members, on="rank")
        .group_by("group", "rank", "step")
        .agg(pl.col("start_ns").min(), pl.col("duration_ns").sum(), pl.col("exposed_comm_ns").sum())
        .with_columns(members=pl.col("rank").n_unique().over("group").cast(pl.Int32))
        .with_columns(matched=pl.len().over("group", "step"))
        .filter((pl.col("matched") == pl.col("members")) & (pl.col("members") > 1))
    )
    rows = rows.with_columns(match_id=pl.struct("group", "step").rank("dense"))
    rows = _without_lost(rows, run.table("collectives"), "start_ns", pl.col("start_ns") + pl.col("duration_ns"))
    own = pl.col("duration_ns") - pl.col("exposed_comm_ns")
    return rows.select(
        "match_id", "rank", "step", "start_ns", "duration_ns",
        "group", "members", "matched", wait_ns=pl.lit(0, pl.Int64), shown_wait_ns=pl.lit(None, pl.Int64),
        group_ranks=pl.lit(None, pl.List(pl.Int32)),
        source=pl.lit("kernel"), label=pl.lit("pipeline"), own_ns=own, limit_ns=own,
        inherited_ns=pl.col("exposed_comm_ns"), by_clock=pl.lit(False),
        since=pl.struct("group", "step").rank("dense"),
    )  # fmt: skip
