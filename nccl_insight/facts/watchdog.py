"""Where each rank stands in its collectives, from the lines of torch's watchdog: who waits, and who did not come.

The numbers count the operations of a process group, alike on all its ranks. A rank that times out in operation n
issued it and waits; one whose last issued operation is below n never came to it. The oldest unfinished operation
of the group decides, so a gap of one is enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from nccl_insight.facts.clock import with_time
from nccl_insight.facts.identity import identities
from nccl_insight.model import Ref
from nccl_insight.tables.run import Run

TIMEOUTS: Final = ("watchdog_timeout", "watchdog_timeout_bare", "watchdog_blocking_wait")
STATES: Final = (
    "watchdog_last_work", "watchdog_last_work_bare", "watchdog_failure", "watchdog_failure_bare",
    "watchdog_dump_signal",
)  # fmt: skip
DEFAULT: Final = "default"
_IN_TAG: Final = r"\[PG (?:ID )?([0-9]+)[^\]]*Rank [0-9]+\]\s*$"
_RANK_IN_TAG: Final = r"\[(?:PG [^\]]*)?Rank ([0-9]{1,9})\]\s*$"
_SCHEMA: Final = {
    "group": pl.String, "rank": pl.Int32, "global_rank": pl.Int32, "last_enqueued": pl.Int64,
    "last_completed": pl.Int64, "timed_out_seq": pl.Int64, "op": pl.String, "numel": pl.Int64,
    "timeout_ms": pl.Int64, "ran_ms": pl.Int64, "time_s": pl.Float64, "input_id": pl.UInt16, "line": pl.UInt64,
}  # fmt: skip


def states(run: Run) -> pl.DataFrame:
    """One row per rank and process group: the oldest operation that timed out and the last numbers it told.

    Columns: ``group`` (``default``, the group's id, or ``?`` where no line names it), ``rank`` (in the group),
    ``global_rank`` (the launcher's tag, null where there is none), ``last_enqueued, last_completed, timed_out_seq,
    op, numel, timeout_ms, ran_ms``, ``time_s``, and the first line.
    """
    return run.memo("facts.watchdog", _build)


def _column(frame: pl.DataFrame, name: str, dtype: type[pl.DataType]) -> pl.Expr:
    return (
        pl.col(name).cast(dtype, strict=False) if name in frame.columns else pl.lit(None, dtype).alias(name)
    )


def _build(run: Run) -> pl.DataFrame:
    errors = run.table("errors")
    if errors.is_empty():
        return pl.DataFrame(schema=_SCHEMA)
    rows = with_time(run, errors.filter(pl.col("message").is_in([*TIMEOUTS, *STATES])))
    if rows.is_empty():
        return pl.DataFrame(schema=_SCHEMA)
    tag = pl.col("launcher").fill_null("")
    guid = _column(rows, "pg_guid", pl.String)
    number = _column(rows, "pg_id", pl.Int64).cast(pl.String)
    named = pl.coalesce(
        pl.when(guid.str.contains("default_pg", literal=True)).then(pl.lit(DEFAULT)),
        pl.when(number == "0").then(pl.lit(DEFAULT)).otherwise(number),
        tag.str.extract(_IN_TAG).replace({"0": DEFAULT}),
    )
    timeout = pl.col("message").is_in(list(TIMEOUTS))
    marked = rows.with_columns(
        named.alias("group"),
        pl.coalesce(
            tag.str.extract(_RANK_IN_TAG).cast(pl.Int32, strict=False), "rank", "launcher_rank"
        ).alias("of"),
        pl.col("launcher_rank").alias("global_rank"),
        _column(rows, "seq", pl.Int64),
        _column(rows, "enqueued_seq", pl.Int64),
        _column(rows, "completed_seq", pl.Int64),
        _column(rows, "work_op", pl.String),
        pl.coalesce(_column(rows, "numel_in", pl.Int64)).alias("numel"),
        _column(rows, "timeout_ms", pl.Int64),
        _column(rows, "duration_ms", pl.Int64),
        timeout.alias("timeout"),
    ).filter(pl.col("of").is_not_null() | pl.col("global_rank").is_not_null())
    # A line that names no group belongs to the one that the rank's other lines name, if that is one only.
    own = marked.filter(pl.col("group").is_not_null()).group_by("of", "global_rank").agg(
        pl.col("group").first().alias("only"), pl.col("group").n_unique().alias("groups")
    )  # fmt: skip
    marked = marked.join(
        own.filter(pl.col("groups") == 1).drop("groups"), on=["of", "global_rank"], how="left", nulls_equal=True,
        maintain_order="left",
    )  # fmt: skip
    marked = marked.with_columns(pl.coalesce("group", "only", pl.lit("?")).alias("group"))
    waits = pl.col("seq").filter(pl.col("seq").is_not_null() & (pl.col("message") != "watchdog_dump_signal"))
    oldest = pl.col("seq") == pl.col("seq").min()
    out = marked.group_by("group", "of", "global_rank", maintain_order=True).agg(
        pl.col("enqueued_seq").max().alias("last_enqueued"),
        pl.col("completed_seq").max().alias("last_completed"),
        waits.min().alias("timed_out_seq"),
        pl.col("work_op").filter(oldest).drop_nulls().first().alias("op"),
        pl.col("numel").filter(oldest).drop_nulls().first(),
        pl.col("timeout_ms").drop_nulls().first(),
        pl.col("duration_ms").drop_nulls().first().alias("ran_ms"),
        pl.col("time_s").min(),
        pl.col("input_id").first(),
        pl.col("line").first(),
    )
    return out.rename({"of": "rank"}).select(pl.col(n).cast(t) for n, t in _SCHEMA.items())


@dataclass(frozen=True)
class Missing:
    """Ranks that others wait for in one operation of a process group.

    ``ranks`` are global where ``world`` is true, else those of the group. ``proof``: ``enqueued`` (a rank's own last
    number is below), ``behind`` (it times out in an earlier operation) ``silent`` (it printed nothing), or ``gap``
    (likewise, and its number is all that the log says of it).
    """

    group: str
    seq: int
    op: str | None
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    waiting: tuple[int, ...]
    last: int | None
    proof: str
    world: bool
    sure: bool
    first_s: float | None
    ran_ms: int | None
    evidence: tuple[Ref, ...]


@dataclass(frozen=True)
class Stalled:
    """All ranks of a group wait in the same operation, which all have issued."""

    group: str
    seq: int
    op: str | None
    ranks: tuple[int, ...]
    first_s: float | None
    evidence: tuple[Ref, ...]


def verdicts(run: Run) -> tuple[tuple[Missing, ...], tuple[Stalled, ...]]:
    """Who did not come in each group that timed out, and the groups in which everybody did."""
    return run.memo("facts.watchdog.verdicts", _verdicts)


def _verdicts(run: Run) -> tuple[tuple[Missing, ...], tuple[Stalled, ...]]:
    missing: list[Missing] = []
    stalled: list[Stalled] = []
    for rows in states(run).partition_by("group", maintain_order=True):
        found = _judge(run, rows)
        if isinstance(found, Missing):
            missing.append(found)
        elif isinstance(found, Stalled):
            stalled.append(found)
    return tuple(missing), tuple(stalled)


def _refs(rows: pl.DataFrame, count: int) -> tuple[Ref, ...]:
    return tuple(Ref(int(i), int(n)) for i, n in rows.select("input_id", "line").head(count).iter_rows())


def _numbers(rows: pl.DataFrame, world: bool) -> tuple[int, ...]:
    column = pl.coalesce("global_rank", "rank") if world else pl.coalesce("rank", "global_rank")
    return tuple(sorted(rows.select(column.alias("r"))["r"].drop_nulls().unique().to_list()))


def _judge(run: Run, rows: pl.DataFrame) -> Missing | Stalled | None:
    group = str(rows["group"][0])
    waits = rows.filter(pl.col("timed_out_seq").is_not_null())
    if waits.is_empty():
        return None
    # Rank numbers of the default group are those of the job; of other groups only where the launcher tags its lines.
    tagged = rows["global_rank"].null_count() == 0
    same = bool((rows["rank"] == rows["global_rank"]).all()) if tagged else True
    world = group == DEFAULT or tagged or (group == "?" and same)
    high, low = waits["timed_out_seq"].max(), waits["timed_out_seq"].min()
    if not isinstance(high, int) or not isinstance(low, int):
        return None
    several_ops = group == "?" and waits.filter(pl.col("op").is_not_null()).height == 0
    never = rows.filter(pl.col("last_enqueued").is_not_null() & (pl.col("last_enqueued") < low))
    never = never.filter(pl.col("timed_out_seq").is_null())
    if never.height and never.height < rows.height:
        return _missing(run, group, low, waits, never, "enqueued", world, True, never["last_enqueued"].max())
    if high > low and not several_ops:
        behind = waits.filter(pl.col("timed_out_seq") == low)
        ahead = waits.filter(pl.col("timed_out_seq") > low)
        # Where the ranks behind have issued what the others wait in, all wait for the older operation of somebody.
        issued = behind["last_enqueued"].drop_nulls()
        most = behind.height * 2 > waits.height
        lowest = issued.min() if issued.len() else None
        caught_up = isinstance(lowest, int) and lowest >= high and ahead.height * 2 <= waits.height
        if not most and not caught_up:
            seq = ahead["timed_out_seq"].min()
            return _missing(
                run, group, int(seq) if isinstance(seq, int) else high, ahead, behind, "behind", world,
                group != "?", low,
            )  # fmt: skip
    return _silent(run, group, low, high, rows, waits, world)


def _silent(
    run: Run, group: str, low: int, high: int, rows: pl.DataFrame, waits: pl.DataFrame, world: bool
) -> Missing | Stalled | None:
    """The members of the group that printed nothing, where the log shows who its members are."""
    known = identities(run)
    members = set(known.host_of_rank) if world and group in (DEFAULT, "?") else set()
    here = set(_numbers(rows, world))
    if high == low and not members and world and group == DEFAULT:
        return _gap(low, here, waits)
    if high != low or not members or not here <= members or len(members) != known.world:
        return None
    absent = tuple(sorted(members - here))
    op = waits["op"].drop_nulls()
    began = waits["time_s"].drop_nulls()
    first_s = float(began.min()) if began.len() else None  # type: ignore[arg-type]
    if not absent:
        return Stalled(
            group, low, str(op[0]) if op.len() else None, tuple(sorted(here)), first_s, _refs(waits, 4)
        )
    if len(absent) * 2 > len(members):
        return None
    hosts = tuple(sorted({known.host_of_rank[r] for r in absent}))
    ran = waits["ran_ms"].drop_nulls()
    return Missing(
        group, low, str(op[0]) if op.len() else None, absent, hosts, tuple(sorted(here)), None, "silent", True,
        len(absent) * 4 <= len(members), first_s, int(ran[0]) if ran.len() else None, _refs(waits, 4),
    )  # fmt: skip


def _gap(seq: int, here: set[int], waits: pl.DataFrame) -> Missing | None:
    """The few numbers between the ranks that timed out, where no line tells how many ranks the job has."""
    absent = (
        tuple(sorted(set(range(max(here, default=0))) - here)) if max(here, default=0) < 1_000_000 else ()
    )
    if not absent or len(absent) * 4 > len(here):
        return None
    op = waits["op"].drop_nulls()
    ran = waits["ran_ms"].drop_nulls()
    began = waits["time_s"].drop_nulls()
    first_s = float(began.min()) if began.len() else None  # type: ignore[arg-type]
    return Missing(
        DEFAULT, seq, str(op[0]) if op.len() else None, absent, (), tuple(sorted(here)), None, "gap", True, False,
        first_s, int(ran[0]) if ran.len() else None, _refs(waits, 4),
    )  # fmt: skip


def _missing(
    run: Run,
    group: str,
    seq: int,
    waits: pl.DataFrame,
    late: pl.DataFrame,
    proof: str,
    world: bool,
    sure: bool,
    last: object,
) -> Missing:
    known = identities(run)
    ranks = _numbers(late, world)
    hosts = tuple(sorted({known.host_of_rank[r] for r in ranks if r in known.host_of_rank})) if world else ()
    op = waits["op"].drop_nulls()
    ran = waits["ran_ms"].drop_nulls()
    began = waits["time_s"].drop_nulls()
    return Missing(
        group=group,
        seq=seq,
        op=str(op[0]) if op.len() else None,
        ranks=ranks,
        hosts=hosts,
        waiting=_numbers(waits, world),
        last=last if isinstance(last, int) else None,
        proof=proof,
        world=world,
        sure=sure,
        first_s=float(began.min()) if began.len() else None,  # type: ignore[arg-type]
        ran_ms=int(ran[0]) if ran.len() else None,
        evidence=(*_refs(late, 2), *_refs(waits, 2)),
    )
