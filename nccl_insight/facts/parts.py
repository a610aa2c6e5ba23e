"""Which jobs, and which attempts of a job, the inputs hold.

Communicators tie processes together; what no communicator ties together can still be one job. Another job, or another
attempt, is only assumed where something says so: in one input a rank that begins anew in another process while none
of the earlier processes goes on, in several inputs communicators of other sizes, other releases or on the same GPUs.
An earlier part of one input is an attempt where the launcher says that it starts the workers again, or where it failed;
else it is a job of its own.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, TypeAlias

import polars as pl

from nccl_insight.facts.errors import BENIGN, causes
from nccl_insight.model import Ref
from nccl_insight.tables.run import Run, Tables
from nccl_insight.tables.schema import FLOODS

MOST_PARTS: Final = 16
_END: Final = 1 << 62
_PROCESS: Final = ("input_id", "host", "pid")
_ATTEMPT: Final = re.compile(r"(?i)(?:^|[/\\])(?:attempt|restart)[_-]?([0-9]+)(?=[/\\.]|$)")

Gpu: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class Span:
    """Lines ``first`` to ``last`` (not included) of an input."""

    input_id: int
    first: int = 0
    last: int = _END


@dataclass(frozen=True)
class Part:
    """One attempt of one job; both are counted from 1. ``judged``: the last attempt of its job."""

    job: int
    attempt: int
    spans: tuple[Span, ...]
    judged: bool
    begins: Ref | None = None


@dataclass
class _Process:
    """A process in an input, from its first to its last line that any small table knows."""

    key: tuple[str | None, int | None, int]
    first: int
    last: int
    version: bool = False
    ranks: set[tuple[int, int]] = field(default_factory=set)
    comms: set[str] = field(default_factory=set)
    gpus: set[Gpu] = field(default_factory=set)
    open: bool = False
    closed: bool = False


@dataclass(frozen=True)
class _World:
    """What belongs together: spans, and what tells it from others."""

    spans: tuple[Span, ...]
    comms: frozenset[str] = frozenset()
    gpus: frozenset[Gpu] = frozenset()
    ranks: frozenset[tuple[int, int]] = frozenset()
    size: int = 0
    failed: bool = False
    restarted: bool = False

    def joined(self, other: _World) -> _World:
        """Both as one."""
        return _World(
            (*self.spans, *other.spans), self.comms | other.comms, self.gpus | other.gpus,
            self.ranks | other.ranks, max(self.size, other.size), self.failed or other.failed,
            self.restarted or other.restarted,
        )  # fmt: skip


def parts(run: Run) -> tuple[Part, ...]:
    """The attempts of all jobs in order; one part, without spans, where the inputs are one attempt of one job."""
    return run.memo("facts.parts", _parts)


def _parts(run: Run) -> tuple[Part, ...]:
    whole = (Part(1, 1, (), True),)
    worlds = _worlds(run)
    if not 1 < len(worlds) <= MOST_PARTS:
        return whole
    return tuple(_numbered(run, worlds))


def part_run(run: Run, part: Part) -> Run:
    """The run with the rows of one part only."""
    if not part.spans:
        return run
    return run.memo(
        f"facts.parts.run-{part.job}-{part.attempt}",
        lambda r: Run(_PartTables(r, part.spans), r.reader, r.inputs),
    )


class _PartTables(Tables):
    """The rows of some lines; each table is cut when it is first asked for."""

    def __init__(self, run: Run, spans: Sequence[Span]) -> None:
        super().__init__({}, {})
        self._run = run
        self._cut: dict[str, pl.DataFrame] = {}
        self._spans = pl.DataFrame(
            [(s.input_id, s.first, s.last) for s in spans],
            schema={"input_id": pl.UInt16, "_first": pl.Int64, "_end": pl.Int64},
            orient="row",
        )

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name not in self._cut:
            self._cut[name] = self._select(name, self._run.tables[name])
        return self._cut[name]

    def __contains__(self, name: object) -> bool:
        return name in self._run.tables

    def __iter__(self) -> Iterator[str]:
        return iter(self._run.tables)

    def __len__(self) -> int:
        return len(self._run.tables)

    def height(self, name: str) -> int:
        """The number of rows."""
        return sum(frame.height for frame in self.frames(name))

    def has(self, name: str) -> bool:
        """Whether a row of the table is in these lines."""
        return name in self and any(frame.height for frame in self.frames(name))

    def frames(self, name: str) -> Iterator[pl.DataFrame]:
        """The rows in these lines of each piece of the table; a large one is not kept."""
        if name in FLOODS and name not in self._cut:
            return (self._select(name, frame) for frame in self._run.pieces(name))
        return iter([self[name]])

    def _select(self, name: str, frame: pl.DataFrame) -> pl.DataFrame:
        if not self._run.has_columns(name, "input_id") or frame.is_empty():
            return frame
        cut = frame.with_row_index("_row").join(
            self._spans.with_columns(pl.col("input_id").cast(frame.schema["input_id"])),
            on="input_id",
            how="inner",
        )
        if self._run.has_columns(name, "line"):
            place = pl.col("line").cast(pl.Int64)
            inside = place.is_null() | (place == 0) | ((place >= pl.col("_first")) & (place < pl.col("_end")))
            if name == "processes":
                # A number that was used again: the row of the first process stands for both.
                known = self["ranks"].select("host", "pid").unique().with_columns(_again=True)
                cut = cut.join(known, on=["host", "pid"], how="left", nulls_equal=True)
                inside |= pl.col("_again").fill_null(False)
            cut = cut.filter(inside)
        rows: pl.DataFrame = frame[cut.get_column("_row").unique().sort()]
        return rows


def _worlds(run: Run) -> list[_World]:
    ranks = run.table("ranks").drop_nulls(["rank", "nranks", "line"])
    if ranks.is_empty():
        return []
    found: list[_World] = []
    outside: list[int] = []
    processes = _processes(run, ranks)
    failures, restarts = _failures(run), _restarts(run)
    benches = set(run.table("benchmarks").filter(pl.col("input_id").is_not_null())["input_id"].to_list())
    versions = _versions(run)
    for input_id in run.table("inputs")["input_id"].drop_nulls().to_list():
        own = processes.get(input_id, [])
        if not own:
            outside.append(input_id)
            continue
        bare = [line for line, has_head in versions.get(input_id, []) if not has_head]
        lines, again = failures.get(input_id, []), restarts.get(input_id, [])
        cuts = _cuts(own, lines, again, bare)
        for n, (first, last) in enumerate(pairwise([0, *cuts, _END])):
            inside = [p for p in own if first <= p.first < last]
            found.append(
                _World(
                    (Span(input_id, first, last),),
                    frozenset(c for p in inside for c in p.comms),
                    frozenset(g for p in inside for g in p.gpus),
                    frozenset(r for p in inside for r in p.ranks),
                    max((n for p in inside for _, n in p.ranks), default=0),
                    any(first <= line < last for line in lines) or any(p.open for p in inside),
                    input_id not in benches
                    and n < len(cuts)
                    and any(first <= line <= last for line in again),
                )
            )
    return _with_others(_grouped(run, _tied(found)), outside)


def _processes(run: Run, ranks: pl.DataFrame) -> dict[int, list[_Process]]:
    """Processes by input in the order of their first lines; a number that was used again stands for two."""
    key = list(_PROCESS)
    lines = [
        *(ranks.select(*key, pl.col(c).cast(pl.Int64).alias("line")) for c in (
            "line", "init_started_line", "init_completed_line", "destroyed_line")),
        *(
            run.table(name).select(*key, pl.col("line").cast(pl.Int64))
            for name in ("processes", "errors", "versions", "networks")
        ),
    ]  # fmt: skip
    extents = (
        pl.concat(lines, how="vertical_relaxed")
        .drop_nulls(["line", "pid", "input_id"])
        .group_by(key, maintain_order=True)
        .agg(pl.col("line").unique().sort())
    )
    banners = run.table("versions")
    starts: dict[tuple[int, str | None, int], list[int]] = {}
    for i, host, pid, line in banners.drop_nulls(["nccl_version", "pid"]).select(*key, "line").iter_rows():
        starts.setdefault((i, host, pid), []).append(int(line))
    members: dict[tuple[int, str | None, int | None], list[dict[str, Any]]] = {}
    for row in ranks.iter_rows(named=True):
        members.setdefault((row["input_id"], row["host"], row["pid"]), []).append(row)
    # NCCL names its version once per process, on rank 0 only: there the other ranks began again, too.
    again: dict[int, list[int]] = {}
    for (input_id, _, _), told in starts.items():
        again.setdefault(input_id, []).extend(sorted(told)[1:])
    again = {input_id: sorted(told) for input_id, told in again.items()}
    found: dict[int, list[_Process]] = {}
    for input_id, host, pid, seen in extents.iter_rows():
        rows = members.get((input_id, host, pid), [])
        lives = _lives(rows, again.get(input_id, ()))
        for n, (begin, end) in enumerate(pairwise([0, *lives, _END])):
            own = [line for line in seen if begin <= line < end]
            if not own:
                continue
            process = _Process((host, pid, n), own[0], own[-1])
            process.version = any(begin <= line < end for line in starts.get((input_id, host, pid), []))
            mine = [r for r in members.get((input_id, host, pid), ()) if begin <= r["line"] < end]
            process.ranks = {(r["rank"], r["nranks"]) for r in mine}
            process.comms = {r["comm_id"] for r in mine if r["comm_id"]}
            process.gpus = {(host, r["bus_id"]) for r in mine if host and r["bus_id"]}
            process.open = any(not r["init_complete"] for r in mine)
            process.closed = all(r["destroyed"] not in (None, "no") for r in mine)
            found.setdefault(input_id, []).append(process)
    return {i: sorted(own, key=lambda p: p.first) for i, own in found.items()}


def _lives(rows: Sequence[Mapping[str, Any]], lines: Sequence[int]) -> list[int]:
    """Those of the lines, which are sorted, before and behind which the same rank of a process comes."""
    extents: dict[tuple[int, int], tuple[int, int]] = {}
    for row in rows:
        rank, at = (row["rank"], row["nranks"]), row["line"]
        first, last = extents.get(rank, (at, at))
        extents[rank] = min(first, at), max(last, at)
    found: list[int] = []
    done = 0
    for first, last in sorted(extents.values()):
        begin, end = max(done, bisect_right(lines, first)), bisect_right(lines, last)
        found += lines[begin:end]
        done = max(done, end)
    return sorted(set(found))


def _failures(run: Run) -> dict[int, list[int]]:
    """Lines by input that report a failure, or the end of the job from outside."""
    rows = causes(run).filter(
        pl.col("loud") & (pl.col("cause") != BENIGN) & pl.col("line").is_not_null()
        & pl.col("role").is_in(["root", "effect"])
    )  # fmt: skip
    found: dict[int, list[int]] = {}
    for input_id, line in rows.select("input_id", "line").iter_rows():
        found.setdefault(input_id, []).append(int(line))
    for input_id, line in run.table("endings").select("input_id", "line").drop_nulls().iter_rows():
        found.setdefault(input_id, []).append(int(line))
    return found


def _restarts(run: Run) -> dict[int, list[int]]:
    """Lines by input with which a launcher or scheduler says that it starts the job again."""
    frames = [run.table("restarts")] if run.has("restarts") else []
    ended = run.table("errors")
    frames.append(ended.filter(pl.col("end_reason").str.to_uppercase().str.ends_with("REQUEUE")))
    found: dict[int, list[int]] = {}
    for frame in frames:
        for input_id, line in frame.select("input_id", "line").drop_nulls().iter_rows():
            found.setdefault(input_id, []).append(int(line))
    return found


def _versions(run: Run) -> dict[int, list[tuple[int, bool]]]:
    """Lines by input with which NCCL names its version, and whether they have a head."""
    table = run.table("versions")
    found: dict[int, list[tuple[int, bool]]] = {}
    rows = table.drop_nulls(["nccl_version", "line"]).select("input_id", "line", "pid")
    for input_id, line, pid in rows.iter_rows():
        found.setdefault(input_id, []).append((int(line), pid is not None))
    return found


def _cuts(
    own: Sequence[_Process], failures: Iterable[int], restarts: Iterable[int], bare: Iterable[int]
) -> list[int]:
    """Lines at which another attempt or job begins in an input. One pass: there may be 100,000 processes."""
    failures, restarts, bare = sorted(failures), sorted(restarts), sorted(bare)
    after = _After(own)
    cuts: list[int] = []
    left = _Left(after)
    begin = own[0].first
    reach = own[0].last
    for n in range(1, len(own)):
        left.add(own[n - 1])
        start = own[n].first
        if start > reach:
            said = restarts[bisect_left(restarts, begin) : bisect_left(restarts, start)]
            failed = bisect_left(failures, begin) < bisect_left(failures, start)
            if said or left.anew(n, failed):
                versions = bare[bisect_right(bare, reach) : bisect_left(bare, start)]
                cuts.append(said[-1] + 1 if said else min([*versions, start]))
                left, begin = _Left(after), start
        reach = max(reach, own[n].last)
    return cuts


class _After:
    """What the processes from a place on have, for every place."""

    def __init__(self, own: Sequence[_Process]) -> None:
        # The last process that has a communicator, rank, GPU or number of a process, or names a version on a host.
        self.comms: dict[Any, int] = {}
        self.ranks: dict[Any, int] = {}
        self.gpus: dict[Any, int] = {}
        self.keys: dict[Any, int] = {}
        self.version_hosts: dict[Any, int] = {}
        for n, process in enumerate(own):
            self.comms.update(dict.fromkeys(process.comms, n))
            self.ranks.update(dict.fromkeys(process.ranks, n))
            self.gpus.update(dict.fromkeys(process.gpus, n))
            self.keys[process.key[:2]] = n
            if process.version:
                self.version_hosts[process.key[0]] = n
        # The largest number of ranks, 0 where no rank follows.
        self.largest = [0] * (len(own) + 1)
        for n in range(len(own) - 1, -1, -1):
            self.largest[n] = max([self.largest[n + 1], *(size or 0 for _, size in own[n].ranks)])
        self.any_ranks = [False] * (len(own) + 1)
        for n in range(len(own) - 1, -1, -1):
            self.any_ranks[n] = self.any_ranks[n + 1] or bool(own[n].ranks)


class _Left:
    """The processes before a place, and how far behind it their communicators, ranks and GPUs come again."""

    def __init__(self, after: _After) -> None:
        self._after = after
        self._comms = self._gpus = self._keys = self._versions = -1
        self._ranks: dict[int, int] = {}
        self._open = self._version = False
        self._closed = True

    def add(self, process: _Process) -> None:
        after = self._after
        self._comms = max([self._comms, *(after.comms[c] for c in process.comms)])
        self._gpus = max([self._gpus, *(after.gpus[g] for g in process.gpus)])
        self._keys = max(self._keys, after.keys[process.key[:2]])
        self._versions = max(self._versions, after.version_hosts.get(process.key[0], -1))
        for rank in process.ranks:
            size = rank[1] or 0
            self._ranks[size] = max(self._ranks.get(size, -1), after.ranks[rank])
        self._open = self._open or process.open
        self._version = self._version or process.version
        self._closed = self._closed and (process.closed or not process.ranks)

    def anew(self, n: int, failed: bool) -> bool:
        """Whether the processes from ``n`` on are these ranks once more, not more ranks of the same job."""
        if self._comms >= n:
            return False
        failed = failed or self._open
        if not self._ranks:
            return failed and self._version and self._versions >= n
        largest, follow = self._after.largest[n], self._after.any_ranks[n]
        if max(self._ranks) == 1 or (largest if follow else 1) == 1:
            return False  # processes that should have found each other: separate-jobs, or replicas
        if self._closed and follow:
            return True
        if self._keys < n and self._gpus >= n:
            return True
        return failed and any(self._ranks.get(size, -1) >= n for size in (max(self._ranks), largest))


def _tied(worlds: Sequence[_World]) -> list[_World]:
    """Worlds that share a communicator are one."""
    found: list[_World] = []
    for world in worlds:
        shared = [w for w in found if w.comms & world.comms]
        joined = world
        for w in reversed(shared):
            joined = w.joined(joined)
        at = found.index(shared[0]) if shared else len(found)
        found = [w for w in found if w not in shared]
        found.insert(at, joined)
    return found


def _sequence(one: _World, other: _World) -> bool:
    """Whether both have lines of one input, one after the other."""
    return bool({s.input_id for s in one.spans} & {s.input_id for s in other.spans})


def _differ(one: _World, other: _World, ids: Mapping[str, str]) -> bool:
    """Whether two worlds of different inputs are certainly not parts of one job."""
    if not (one.comms and other.comms):
        return False
    mine = {v for c in one.comms if (v := ids.get(c))}
    theirs = {v for c in other.comms if (v := ids.get(c))}
    apart = bool(mine and theirs and not mine & theirs) and not _complete_each_other(one, other)
    return apart or one.size != other.size or bool(one.gpus & other.gpus)


def _complete_each_other(one: _World, other: _World) -> bool:
    """Whether each has ranks that the other lacks: one job whose hosts have different releases prints that, too."""
    mine = {rank for rank, n in one.ranks if n == one.size}
    theirs = {rank for rank, n in other.ranks if n == other.size}
    return one.size == other.size and not mine & theirs and len(mine) + len(theirs) <= one.size


def _grouped(run: Run, worlds: Sequence[_World]) -> list[_World]:
    """Worlds that nothing tells apart are one: groups of a job that have no communicator in common."""
    table = run.table("communicators").drop_nulls("comm_id")
    ids = {c: ",".join(v or ()) for c, v in table.select("comm_id", "nccl_versions").iter_rows()}
    found: list[_World] = []
    for world in worlds:
        for n, known in enumerate(found):
            if not _sequence(known, world) and not _differ(known, world, ids):
                found[n] = known.joined(world)
                break
        else:
            found.append(world)
    return found


def _with_others(worlds: Sequence[_World], outside: Sequence[int]) -> list[_World]:
    """Inputs without processes (a kernel log, a topology file) belong to every world."""
    more = tuple(Span(i) for i in outside)
    return [replace(w, spans=(*w.spans, *more)) for w in worlds]


def _place_in_path(paths: Mapping[int, str], world: _World) -> int | None:
    """The number of the attempt that the launcher's folder names, where all inputs agree."""
    found = {
        int(m[-1]) for s in world.spans if (m := _ATTEMPT.findall(paths.get(s.input_id, "")))
    }  # fmt: skip
    return found.pop() if len(found) == 1 else None


def _numbered(run: Run, worlds: Sequence[_World]) -> Iterator[Part]:
    paths = {int(i): str(p) for i, p in run.table("inputs").select("input_id", "path").iter_rows()}
    named = [_place_in_path(paths, w) for w in worlds]
    if None not in named and len(set(named)) == len(named):
        order = sorted(range(len(worlds)), key=lambda n: named[n] or 0)
        chains = [[worlds[n] for n in order]]
    else:
        chains = []
        for world in worlds:
            for chain in chains:
                last = chain[-1]
                alike = last.size == world.size or not last.size or bool(last.gpus & world.gpus)
                if _sequence(last, world) and (last.restarted or (last.failed and alike)):
                    chain.append(world)
                    break
            else:
                chains.append([world])
    for job, chain in enumerate(chains, start=1):
        for attempt, world in enumerate(chain, start=1):
            yield Part(job, attempt, world.spans, attempt == len(chain), _first_line(run, world))


def _first_line(run: Run, world: _World) -> Ref | None:
    ranks = run.table("ranks").filter(pl.col("comm_id").is_in(sorted(world.comms))).drop_nulls("line")
    for input_id, line in ranks.sort("input_id", "line").select("input_id", "line").head(1).iter_rows():
        return Ref(int(input_id), int(line))
    span = world.spans[0]
    return Ref(span.input_id, max(span.first, 1))
