"""Process groups by the sources that count: how many operations each rank issued, and whom a barrier missed.

Call logs count the collectives of a communicator, RAS reports and Inspector those of one kind. No collective ends
before all have issued it, so whoever issued more than another rank waits for it.
"""

from collections.abc import Iterator
from typing import Final

import polars as pl

from nccl_insight.base.data import replace
from nccl_insight.facts.progress.calls import closed, collectives_at, judgeable, log_is_cut, progress
from nccl_insight.facts.progress.claims import BARRIER, CALLS, INSPECTOR, RAS, STACKS
from nccl_insight.facts.progress.instances import Instance
from nccl_insight.facts.said.ended import endings
from nccl_insight.facts.said.errors import causes
from nccl_insight.facts.said.stands import stands
from nccl_insight.facts.said.topics import plays
from nccl_insight.loading.assemble.places import rank_in_job
from nccl_insight.tables.declared import frame
from nccl_insight.tables.run import Run, fact
from nccl_insight.tables.schema import shaped

_ROWS: Final = frame("""rank i64, global_rank i64, host str, last_enqueued i64, op str, ranks i64, input_id u16,
    line u64""")
_MOST_COMMS: Final = 5


@fact
def counted(run: Run, source: str) -> tuple[Instance, ...]:
    """The process groups of which a source counts how much each rank issued, also where all issued as much."""
    of = {CALLS: _of_calls, RAS: _of_ras, INSPECTOR: _of_records, BARRIER: _of_barrier, STACKS: _of_stacks}
    return tuple(of[source](run))


def _tally(
    name: str, rows: pl.DataFrame, proof: str, strict: bool = False, op: str = "", ran_ms: int | None = None
) -> Instance:
    """The group; its ranks behind are told only where most of the others agree.

    ``strict``: nobody is ahead of those, as in a log that was cut while the job ran.
    """
    every = rows["last_enqueued"].to_list()
    low, high = min(every), max(every)
    size = pl.col("ranks").fill_null(1)
    sizes = rows.group_by("last_enqueued").agg(size.sum()).sort("ranks", "last_enqueued")
    usual, most = sizes["last_enqueued"][-1], int(sizes["ranks"][-1])
    behind = int(rows.filter(pl.col("last_enqueued") < usual).select(size.sum()).item())
    agreed = usual == high and (most * 2 > sizes["ranks"].sum() or rows.height == 2) if strict else behind <= most
    waits = pl.when(pl.col("last_enqueued") > low).then(pl.lit(low + 1, pl.Int64))
    said, ran, none = pl.lit(op) if op else pl.col("op"), pl.lit(ran_ms, pl.Int64), pl.lit(None, pl.Int64)
    timed = pl.lit(None, pl.Float64)
    rows = rows.with_columns(timed_out_seq=waits, last_completed=none, op=said, time_s=timed, ran_ms=ran)
    world = rows.filter(pl.col("rank").is_not_null())["global_rank"].null_count() == 0
    # Whom RAS counts together it does not name.
    members = frozenset(rows["global_rank"].drop_nulls().to_list()) if world else frozenset()
    return Instance(name, rows, members, world, agreed, proof=proof)


def _placed(run: Run, rows: pl.DataFrame, comm: object) -> pl.DataFrame:
    """The rows of a communicator with the ranks of the job, or all without."""
    placed = [None if r is None else rank_in_job(run, comm, int(r)) for r in rows["rank"]]
    return rows.with_columns(
        global_rank=pl.Series(placed if None not in placed else [None] * len(placed), dtype=pl.Int64)
    )


def _of_calls(run: Run) -> Iterator[Instance]:
    if not run.has("calls") or log_is_cut(run):
        return
    counts = progress(run).join(judgeable(run), on="comm_id", how="semi").join(closed(run), on="comm_id", how="anti")
    counts = counts.with_columns(low=pl.col("calls").min().over("comm_id")).sort("comm_id", "rank")
    first = counts.filter(pl.col("calls") > pl.col("low")).select("comm_id", "low").unique().sort("comm_id").rows()
    missed = collectives_at(run, first[:_MOST_COMMS]).select("comm_id", "op").iter_rows() if first else ()
    op_of = dict(missed)
    # A log that ends with the call of one of two may lack that of the other.
    ends = run.table("inputs").select("input_id", "lines")
    for part in counts.partition_by("comm_id", maintain_order=True):
        comm = str(part["comm_id"][0])
        rows = part.select("rank", "host", last_enqueued="calls", input_id="input_id", line="line", ranks=pl.lit(1))
        rows = _placed(run, rows.cast({"rank": pl.Int64}), comm)
        found = _tally(comm, rows, "calls", True, op_of.get(comm, "collective"))
        rows = rows.with_columns(more=pl.col("last_enqueued") - pl.col("last_enqueued").min())
        last = rows.filter(pl.col("more") == 1).join(ends, on="input_id").filter(pl.col("line") >= pl.col("lines"))
        cut = rows.height == 2 and last.height > 0
        yield replace(found, comparable=False) if cut else found


def _of_ras(run: Run) -> Iterator[Instance]:
    for part in ras_counts(run).partition_by("comm", "op", maintain_order=True):
        comm = str(part["comm"][0])
        reports = part.partition_by("input_id", "report", maintain_order=True)
        # The same counts in two reports, or a job that was ended from outside: nothing moved any more.
        marks = [tuple(sorted(r.select("rank", "count").rows(), key=str)) for r in reports]
        still = (len(marks) > 1 and marks[-1] == marks[-2]) or endings(run).height > 0
        rows = reports[-1].with_columns(last_enqueued="count").drop_nulls("last_enqueued")
        if (
            rows.height
            and (found := _tally(comm, rows.select(list(_ROWS)), "counts-still" if still else "counts")).world
        ):
            yield found
    # What is sent and received is not counted: who has no count may still wait.
    none = run.table("ras_ranks").join(run.table("ras_counts"), on="comm_hash", how="anti").drop_nulls("comm_hash")
    for (comm,), part in none.partition_by("comm_hash", as_dict=True, maintain_order=True).items():
        each = part.unique("rank", keep="last", maintain_order=True)
        each = each.with_columns(last_enqueued=0, ranks=1, line=0, op=pl.lit(None, pl.String))
        yield _tally(str(comm), shaped(each, _ROWS), "counts")


def _of_records(run: Run) -> Iterator[Instance]:
    """Of the largest groups alone: records number collectives that ended, in each group and of each kind."""
    rows = recorded(run)
    largest = rows.filter(pl.col("group_size") == pl.col("group_size").max())
    for part in largest.partition_by("process_group", "op", maintain_order=True):
        numbered = part.with_columns(global_rank="rank", last_enqueued="seq", line=0, ranks=1)
        yield _tally(str(part["process_group"][0]), shaped(numbered, _ROWS), "records", True)


def _of_barrier(run: Run) -> Iterator[Instance]:
    """A monitored barrier: rank 0 of its group waits for those that it names.

    Where the line of another rank than 0 of the job says so, numbers are those of smaller groups.
    """
    lines = causes(run)
    lines = lines.filter(plays(lines, "barrier")).drop_nulls("failed_ranks")
    if lines.is_empty():
        return
    world = lines.filter(pl.col("rank") != 0).is_empty()
    named = lines.select(pl.col("failed_ranks").cast(pl.List(pl.Int64)).alias("rank"), "input_id", "line", n=0)
    named = named.explode("rank").drop_nulls("rank").unique("rank", keep="first", maintain_order=True)
    first = lines.head(1).select(pl.lit(0, pl.Int64).alias("rank"), "input_id", "line", n=1)
    rows = pl.concat([first.join(named, on="rank", how="anti"), named], how="vertical_relaxed")
    host, issued = pl.lit(None, pl.String), pl.col("n").cast(pl.Int64)
    in_job = pl.when(world).then("rank")
    rows = rows.select("rank", "input_id", "line", host=host, last_enqueued=issued, ranks=1, global_rank=in_job)
    waited = lines["timeout_ms"].drop_nulls().cast(pl.Int64)
    yield _tally("", rows, "barrier", op="barrier", ran_ms=int(waited[0]) if waited.len() else None)


def _of_stacks(run: Run) -> Iterator[Instance]:
    """Where processes of known ranks stand while collectives time out: in one, or elsewhere in the program."""
    rows = [
        {"rank": s.rank, "global_rank": s.rank, "host": s.host, "last_enqueued": int(s.doing in ("collective", "gpu")),
         "ranks": 1, "input_id": s.input_id, "line": s.line} for s in stands(run) if s.rank is not None
    ]  # fmt: skip
    if rows and run.table("watchdog")["timed_out_seq"].drop_nulls().len():
        yield _tally("", pl.DataFrame(rows, _ROWS), "stack", True)


@fact
def ras_counts(run: Run) -> pl.DataFrame:
    """Operations launched, by report: ``report, comm, op, rank, global_rank, host, count``; rank null: all others."""
    schema = frame("""input_id u16, line u64, report i64, comm str, op str, rank i64, global_rank i64, host str,
        count i64, ranks i64""")
    ras, counts, ranks = (run.table(name) for name in ("ras", "ras_counts", "ras_ranks"))
    if ras.is_empty() and counts.is_empty():
        return pl.DataFrame(schema=schema)
    said = ras.filter(pl.col("event").is_in(["mismatch", "mismatch_member"]) & pl.col("op_count").is_not_null())
    place = ranks.select("input_id", "comm_hash", "rank", "global_rank", "host").unique(
        ["input_id", "comm_hash", "rank"], keep="first", maintain_order=True
    )
    each = counts.join(place, on=["input_id", "comm_hash", "rank"], how="left")
    each = each.with_columns(comm="comm_hash", count="op_count", line=0, report=0, ranks=1)
    said = said.with_columns(comm="comm_hash", count="op_count", ranks="count")
    return pl.concat([shaped(said, schema), shaped(each, schema)])


def recorded(run: Run) -> pl.DataFrame:
    """Inspector's last number of each operation: ``process_group, op, rank, group_size, seq, input_id``."""
    rows = run.table("collectives")
    needed = pl.col("rank").is_not_null() & pl.col("seq").is_not_null() & pl.col("process_group").is_not_null()
    return (
        rows.filter((pl.col("source").cast(pl.String) == "inspector") & needed)
        .group_by("process_group", "op", "rank", "group_size", maintain_order=True)
        .agg(pl.col("seq").max(), pl.col("input_id").last())
    )
