"""Where each rank stands in its collectives, from the lines of torch's watchdog: who waits, and who did not come.

The numbers count the operations of a process group, alike on all its ranks. A rank that times out in operation n
issued it and waits; one whose last issued operation is below n never came to it. The oldest unfinished operation
of the group decides, so a gap of one is enough."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import polars as pl

from nccl_insight.base.model import Ref
from nccl_insight.facts.clock import SKEW_S, with_time
from nccl_insight.facts.errors import causes
from nccl_insight.facts.identity import Identities, identities
from nccl_insight.tables.run import Run

DEFAULT: Final = "default"
# What only a process in the middle of an operation meets.
_TRANSFERS: Final = (
    "ib-completion-retry-exceeded", "ib-completion-local-prot", "ib-completion-error", "ib-completion-flush",
    "ib-local-access-violation", "ofi-request-error", "net-plugin-error",
)  # fmt: skip
_CLOSED: Final = "peer-died"


def states(run: Run) -> pl.DataFrame:
    """The table ``watchdog`` with ``time_s``: one row per rank and process group that torch's watchdog reports."""
    return run.memo("facts.watchdog", lambda r: with_time(r, r.table("watchdog"), "timestamp"))


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
    apart = {o.group for o in odd_calls(run)}
    for rows in states(run).partition_by("group", maintain_order=True):
        found = _judge(run, rows)
        if isinstance(found, Missing):
            missing.append(found)
        elif isinstance(found, Stalled) and found.group not in apart:
            stalled.append(found)
    return tuple(missing), tuple(stalled)


@dataclass(frozen=True)
class Odd:
    """Ranks of the job that time out in the operation number of all others, and in another operation or size."""

    group: str
    seq: int
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    called: str
    usual: str
    first_s: float | None
    evidence: tuple[Ref, ...]


# Operations that every rank of a group issues, and those of them in which all pass as many elements.
_OF_ALL: Final = ("ALLREDUCE", "BROADCAST", "REDUCE", "ALLGATHER", "_ALLGATHER_BASE", "REDUCE_SCATTER",
                  "_REDUCE_SCATTER_BASE", "ALLTOALL", "ALLTOALL_BASE", "BARRIER")  # fmt: skip
_ONE_SIZE: Final = ("ALLREDUCE", "BROADCAST", "REDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE")


def odd_calls(run: Run) -> tuple[Odd, ...]:
    """In each named process group whose ranks all wait in one number, the few whose operation differs."""
    return run.memo("facts.watchdog.odd", lambda r: tuple(_odd_calls(r)))


def _odd_calls(run: Run) -> Iterator[Odd]:
    size = pl.col("numel").cast(pl.String)
    sized = pl.when(pl.col("op").is_in(list(_ONE_SIZE)) & size.is_not_null()).then(
        pl.format("{} of {} elements", "op", size)
    )
    rows = states(run).filter(pl.col("timed_out_seq").is_not_null() & (pl.col("group") != "?"))
    for part in rows.partition_by("group", maintain_order=True):
        known = part["op"].null_count() == 0 and bool(part["op"].is_in(list(_OF_ALL)).all())
        world = str(part["group"][0]) == DEFAULT or part["global_rank"].null_count() == 0
        if part.height < 3 or part["timed_out_seq"].n_unique() > 1 or not known or not world:
            continue
        calls = part.with_columns(call=pl.coalesce(sized, "op"))
        counted = calls.group_by("call").len().sort("len", "call", descending=True)
        if counted.height != 2 or counted["len"][1] * 2 >= part.height:
            continue
        usual, called = counted["call"].to_list()
        late = calls.filter(pl.col("call") == called)
        ranks = _numbers(late, world)
        began = part["time_s"].drop_nulls()
        yield Odd(
            str(part["group"][0]), int(part["timed_out_seq"][0]), ranks, identities(run).hosts(ranks), str(called),
            str(usual), float(began.min()) if began.len() else None,  # type: ignore[arg-type]
            (*_refs(late, 2), *_refs(calls.filter(pl.col("call") == usual), 2)),
        )  # fmt: skip


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
    if world and group not in (DEFAULT, "?"):
        members = _of_group(run, rows)
        return _absent_of(run, known, group, low, members, here, waits) if members and high == low else None
    if high == low and not members and world and group in (DEFAULT, "?"):
        return _gap(run, low, here, waits)
    if high != low or not members or not here <= members or len(members) != known.world:
        return None
    return _absent_of(run, known, group, low, members, here, waits)


def _of_group(run: Run, rows: pl.DataFrame) -> set[int]:
    """The ranks of the job that make up a process group: the communicator in which all that timed out have the numbers
    that the group gives them; empty where none or several fit, or one is not wholly in the log."""
    pairs = rows.select("global_rank", "rank").drop_nulls().unique()
    numbers = {int(g): int(r) for g, r in pairs.iter_rows()}
    if len(numbers) < 2:
        return set()
    places = run.memo("facts.watchdog.places", _places)
    first, *others = (places.get(pair, frozenset()) for pair in numbers.items())
    found = first.intersection(*others)
    return set(next(iter(found))) if len(found) == 1 else set()


def _places(run: Run) -> dict[tuple[int, int], frozenset[frozenset[int]]]:
    """The ranks of the job in each smaller communicator that is wholly in the log, by each of its members: rank of the
    job, and number in the communicator."""
    known = identities(run)
    ranks = run.table("ranks").select("comm_id", "rank", "nranks", "host", "pid").drop_nulls()
    found: dict[tuple[int, int], set[frozenset[int]]] = {}
    for (_, size), part in ranks.group_by("comm_id", "nranks", maintain_order=True):
        placed = {
            known.rank_of_process.get((h, int(p)), -1): int(r)
            for r, h, p in part.select("rank", "host", "pid").iter_rows()
        }
        if len(placed) == size and -1 not in placed and len(placed) < known.world:
            members = frozenset(placed)
            for pair in placed.items():
                found.setdefault(pair, set()).add(members)
    return {pair: frozenset(groups) for pair, groups in found.items()}


def _came(run: Run, group: str, absent: set[int], first_s: float | None) -> set[int]:
    """Ranks without a line of the watchdog that were not the ones waited for.

    Those whose own transfer failed before the others timed out were in the operation; so were those that lost a
    peer, where another rank explains why; those that time out in another group wait themselves. All of them stay
    where nobody else is left and no transfer failed.
    """
    earliest = run.memo("facts.watchdog.earliest", _earliest)
    last = math.inf if first_s is None else first_s + SKEW_S
    elsewhere = run.memo("facts.watchdog.timed_out", _timed_out)
    failed, closed = (
        {rank for rank in absent if (rank, kind) in earliest and earliest[rank, kind] <= last}
        for kind in (False, True)
    )
    others = closed | {rank for rank in absent if elsewhere.get(rank, set()) - {group}}
    return failed | others if failed or absent - others else set()


def _earliest(run: Run) -> dict[tuple[int, bool], float]:
    """When each rank first reported that its transfer failed (False), and that it lost a peer (True); before
    everything where a line has no time."""
    rows = causes(run).filter(pl.col("loud") & pl.col("cause").is_in([*_TRANSFERS, _CLOSED]))
    times = pl.col("time_s").cast(pl.Float64).fill_null(-math.inf)
    found = rows.drop_nulls("rank").group_by("rank", closed=pl.col("cause") == _CLOSED).agg(times.min())
    return {(int(rank), bool(closed)): float(at) for rank, closed, at in found.iter_rows()}


def _timed_out(run: Run) -> dict[int, set[str]]:
    """The groups in which each rank of the job timed out."""
    rows = states(run).drop_nulls(["timed_out_seq", "global_rank", "group"])
    found: dict[int, set[str]] = {}
    for rank, group in rows.select("global_rank", "group").iter_rows():
        found.setdefault(int(rank), set()).add(str(group))
    return found


def _absent_of(
    run: Run,
    known: Identities,
    group: str,
    low: int,
    members: set[int],
    here: set[int],
    waits: pl.DataFrame,
) -> Missing | Stalled | None:
    """The members of which the log holds no line of the watchdog, if they are the fewer."""
    op = waits["op"].drop_nulls()
    began = waits["time_s"].drop_nulls()
    first_s = float(began.min()) if began.len() else None  # type: ignore[arg-type]
    came = _came(run, group, members - here, first_s)
    absent = tuple(sorted(members - here - came))
    if came and not absent:
        return None
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


def _gap(run: Run, seq: int, here: set[int], waits: pl.DataFrame) -> Missing | None:
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
    came = _came(run, DEFAULT, set(absent), first_s)
    absent = tuple(r for r in absent if r not in came)
    if not absent:
        return None
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
