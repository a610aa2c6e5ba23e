"""The last calls of a log, run once more: who waits in them, and who waits for nobody although others wait for it.

A rank's calls run in order, those of a group of sends and receives at once, and each ends when all its ranks are at it.
What ends so has ended in the job, too, where streams may run side by side.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import groupby
from typing import Final, TypeAlias

import polars as pl

from nccl_insight.base.data import dataclass, field
from nccl_insight.base.grouping import grouped
from nccl_insight.base.words import words
from nccl_insight.facts.progress.calls import POINT_TO_POINT, closed, log_is_cut, progress, sums, unheld, unmatched
from nccl_insight.facts.who.members import completed
from nccl_insight.loading.assemble.places import rank_in_job
from nccl_insight.tables.run import Run, fact

_CALLS: Final = 200_000
_MOST: Final = 4096
# Calls of each rank of an input: so far behind others a rank may write its lines.
_FEW: Final = 8
_COLUMNS: Final = words("comm_id rank op peer root op_count host pid input_id line")
# A communicator, and for transfers who sends to whom.
_Stream: TypeAlias = tuple[str, tuple[int, ...]]


def late(run: Run) -> frozenset[int] | None:
    """The ranks of the job that wait for nobody and have not made calls that others wait in; none where ranks that
    called no more wait for nobody either, as in a log that was cut while the job ran, and where calls of some ranks are
    not here. None: the calls do not tell, as where all wait for each other."""
    return _drained(run).late


def ends_with(run: Run, ranks: Set[int]) -> bool:
    """Whether the last call of one of these ranks stands near the end of its input: it may be cut off there."""
    return not ranks.isdisjoint(_drained(run).ends_with)


def follows(run: Run, waits: int, other: int) -> bool:
    """Whether ``other``, for which a rank waits, waits itself, and not for this rank."""
    return waits not in _drained(run).waits.get(other, {waits})


@dataclass(frozen=True)
class _Drained:
    """Who is ``late``, for which ranks without a call of theirs each one ``waits``, and whose last calls stand near the
    end of their input."""

    late: frozenset[int] | None
    waits: Mapping[int, Set[int]] = field(default_factory=dict)
    ends_with: frozenset[int] = frozenset()


@fact
def _drained(run: Run) -> _Drained:
    if not run.has("calls") or log_is_cut(run):
        return _Drained(None)
    if unheld(run):
        return _Drained(frozenset())
    uneven = progress(run).group_by("comm_id").agg(pl.col("calls").n_unique() > 1)["calls"].any()
    places = _placed(run) if uneven or not unmatched(run).is_empty() else {}
    if len(set(places.values())) < 3 or not sums(run).differing.is_empty():
        return _Drained(None)
    members = defaultdict(list, grouped((comm, job) for (comm, _), job in places.items()))
    rows, total = _tail(run, places), _totals(run, places)
    waits = _waits(rows, total, members)
    free = set(places.values()) - waits.keys()
    lacks = {rank: _lacking(calls, total, members) for rank, calls in waits.items()}
    missed = frozenset(free & set[int]().union(*lacks.values()))
    if not missed:
        return _Drained(None, lacks)
    held = {r for r, who in lacks.items() if who & missed}
    mute = frozenset(places.values()) - {*rows["job"].drop_nulls()}
    near = _near_end(rows, mute) | (mute if _uneven(total, members, mute) else frozenset())
    cut = _cut(run, rows, held, missed) or len(missed) > max(2, len(free | waits.keys()) // 4)
    still = len(missed) > 1 and _still(total, members, missed, held)
    return _Drained(frozenset() if cut or still or _idle(total, free, missed) else missed, lacks, near)


def _placed(run: Run) -> dict[tuple[str, int], int]:
    """The ranks of the job that the members of open communicators are; none where it is not known of all."""
    made = completed(run).join(closed(run), on="comm_id", how="anti").select("comm_id", "rank").drop_nulls().unique()
    found = {(str(c), int(r)): rank_in_job(run, c, r) for c, r in made.sort("comm_id", "rank").iter_rows()}
    places = {at: job for at, job in found.items() if job is not None}
    return places if len(places) == len(found) else {}


def _lacking(
    calls: Iterable[tuple[_Stream, int]], total: Counter[tuple[int, _Stream]], members: Mapping[str, Sequence[int]]
) -> set[int]:
    """The ranks that have not made these calls."""
    return {p for stream, n in calls for p in stream[1] or members[stream[0]] if n >= total[p, stream]}


def _idle(total: Counter[tuple[int, _Stream]], free: Set[int], missed: Set[int]) -> bool:
    """Whether another rank that waits for nobody made no more collectives than those that are missed."""
    called = Counter[int]()
    for (rank, (_, pair)), calls in total.items():
        called[rank] += 0 if pair else calls
    most = max(called[r] for r in missed)
    return any(0 < called[r] <= most for r in free - missed)


def _uneven(total: Counter[tuple[int, _Stream]], members: dict[str, list[int]], mute: Set[int]) -> bool:
    """Whether others would wait for one another if the ranks without a call had made theirs, which may be cut off."""
    return any(len({total[p, (comm, ())] for p in who if p not in mute}) > 1 for comm, who in members.items())


def _near_end(rows: pl.DataFrame, mute: Set[int]) -> frozenset[int]:
    """The ranks behind whose last call few others stand in their input: each writes its lines when it likes. And those
    that made none, where an input is as short."""
    found = set[int]()
    for part in rows.drop_nulls("job").partition_by("input_id"):
        last = part["job"].to_list()[-_FEW * part["job"].n_unique() :]
        found |= {*last, *(mute if len(last) == part.height else ())}
    return frozenset(found)


def _cut(run: Run, rows: pl.DataFrame, held: set[int], missed: frozenset[int]) -> bool:
    """Whether the calls that lack another one are the last of each input of several ranks, or the last lines of one in
    which the missed ranks called last before, too: it may be cut off."""
    lines = dict(run.table("inputs").select("input_id", "lines").iter_rows())
    lasts = set[int]()
    for part in rows.filter(pl.col("job").n_unique().over("input_id") > 1).partition_by("input_id"):
        lasts.add(part["job"][-1])
        before = part.head(-len(held)).filter(pl.col("job").is_in([*held, *missed])).unique("job", keep="last")
        ends = part["line"][-1] + 1 >= lines[part["input_id"][0]]
        called = {*before.sort("line")["job"].tail(len(missed))}
        if ends and held == {*part["job"].tail(len(held))} and missed == called:
            return True
    return held <= lasts


def _still(
    total: Counter[tuple[int, _Stream]], members: dict[str, list[int]], missed: frozenset[int], held: set[int]
) -> bool:
    """Whether the ranks are those of groups whose data may not move, as all members called as often; or of a group that
    all who wait for them are of, too, and lack one call of it, which may be cut off."""
    made = Counter[tuple[int, str]]()
    for (rank, stream), calls in total.items():
        made[rank, stream[0]] += calls
    even = [set(who) for comm, who in members.items() if len(who) > 1 and len({made[p, comm] or p for p in who}) == 1]
    if missed <= set[int]().union(*(who for who in even if who <= missed)):
        return True
    for comm, who in members.items():
        if missed.issubset(who):
            if not held.issubset(who):
                if set(who) in even:
                    return True
            elif max(made[p, comm] for p in who) == max(made[p, comm] for p in missed) + 1:
                return True
    return False


def _tail(run: Run, places: dict[tuple[str, int], int]) -> pl.DataFrame:
    """The last calls of each process, with ``job`` and ``other``: the ranks of the job that call, and are called."""
    many, rows = min(_MOST, _CALLS // len(places)), pl.DataFrame()
    for frame in run.pieces("calls", *_COLUMNS):
        rows = pl.concat([rows, frame], how="diagonal").group_by("host", "pid", maintain_order=True).tail(many)
    rows = rows.sort("input_id", "line").with_columns(other=pl.coalesce("peer", "root"))
    told = pl.DataFrame([(*at, job) for at, job in places.items()], ["comm_id", "rank", "job"], orient="row")
    told = told.cast({"rank": rows.schema["rank"]})
    rows = rows.join(told, on=["comm_id", "rank"], maintain_order="left")
    told = told.rename({"rank": "other", "job": "whom"}).cast({"other": rows.schema["other"]})
    return rows.join(told, on=["comm_id", "other"], how="left", maintain_order="left")


def _totals(run: Run, places: dict[tuple[str, int], int]) -> Counter[tuple[int, _Stream]]:
    """How many calls each rank of the job made in each stream."""
    total = Counter[tuple[int, _Stream]]()
    for comm, rank, calls in sums(run).progress.select("comm_id", "rank", "calls").iter_rows():
        total[places.get((comm, rank), -1), (comm, ())] += calls
    for comm, *pair, sends, recvs in sums(run).pairs.drop("lines").iter_rows():
        src, dst = (places.get((comm, rank), -1) for rank in pair)
        total[src, (comm, (src, dst))] += sends
        total[dst, (comm, (src, dst))] += recvs
    return total


def _batches(
    rows: pl.DataFrame, total: Counter[tuple[int, _Stream]]
) -> tuple[dict[tuple[int, _Stream], int], dict[int, list[list[tuple[_Stream, int]]]]]:
    """The number of the first call here in each stream of a rank, and the calls of each, those that go together."""
    first, calls = dict(total), defaultdict[int, list[tuple[object, _Stream, int]]](list)
    cells = rows.reverse().with_row_index("n").select("n", "comm_id", "op", "op_count", "job", "whom")
    for n, comm, op, count, job, whom in cells.iter_rows():
        sent = op in POINT_TO_POINT
        if not sent or (op in ("Send", "Recv") and whom not in (None, job)):
            stream: _Stream = (comm, () if not sent else (job, whom) if op == "Send" else (whom, job))
            first[job, stream] -= 1
            calls[job].append(((comm, count) if sent else n, stream, first[job, stream]))
    return first, {
        job: [[(s, n) for _, s, n in part] for _, part in groupby(reversed(each), key=lambda c: c[0])]
        for job, each in calls.items()
    }


def _waits(
    rows: pl.DataFrame, total: Counter[tuple[int, _Stream]], members: dict[str, list[int]]
) -> dict[int, list[tuple[_Stream, int]]]:
    """The calls that each rank waits in, with their numbers in their streams."""
    first, batches = _batches(rows, total)
    left, lacks, ready = Counter[int](), dict[tuple[_Stream, int], int](), deque(sorted(batches))
    at = dict.fromkeys(batches, -1)
    while ready:
        rank = ready.popleft()
        at[rank] += 1
        batch = batches[rank][at[rank]] if at[rank] < len(batches[rank]) else []
        left[rank] = len(batch)
        for stream, n in batch:
            who = [p for p in stream[1] or members[stream[0]] if n >= first.get((p, stream), total[p, stream])]
            lacks[stream, n] = lacks.get((stream, n), len(who)) - 1
            if not lacks[stream, n]:
                left.subtract(who)
                ready.extend(p for p in who if not left[p])
    return {r: [c for c in batches[r][at[r]] if lacks[c]] for r in batches if left[r]}
