"""Which jobs, and which attempts of a job, the inputs hold.

Communicators tie processes together; what no communicator ties together can still be one job. Another job, or another
attempt, is only assumed where something says so: in one input a rank that begins anew in another process while none
of the earlier processes goes on, in several inputs communicators of other sizes, other releases or on the same GPUs.
An earlier part of one input is an attempt where the launcher says that it starts the workers again, or where it failed;
else it is a job of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, TypeAlias

import polars as pl

from nccl_insight.facts.errors import BENIGN, causes
from nccl_insight.model import Ref
from nccl_insight.tables.run import Run, Tables

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
    size: int = 0
    failed: bool = False
    restarted: bool = False

    def joined(self, other: _World) -> _World:
        """Both as one."""
        return _World(
            (*self.spans, *other.spans), self.comms | other.comms, self.gpus | other.gpus,
            max(self.size, other.size), self.failed or other.failed, self.restarted or other.restarted,
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
        return self[name].height

    def frames(self, name: str) -> Iterator[pl.DataFrame]:
        """The table, in one piece."""
        return iter([self[name]])

    def _select(self, name: str, frame: pl.DataFrame) -> pl.DataFrame:
        if "input_id" not in frame.columns or frame.is_empty():
            return frame
        cut = frame.with_row_index("_row").join(
            self._spans.with_columns(pl.col("input_id").cast(frame.schema["input_id"])),
            on="input_id",
            how="inner",
        )
        if "line" in frame.columns:
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
            frame.select(*key, pl.col("line").cast(pl.Int64))
            for name in ("processes", "errors", "versions", "networks")
            if set(key) <= set((frame := run.table(name)).columns)
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
    if {"nccl_version", *key} <= set(banners.columns):
        for i, host, pid, line in (
            banners.drop_nulls(["nccl_version", "pid"]).select(*key, "line").iter_rows()
        ):
            starts.setdefault((i, host, pid), []).append(int(line))
    members: dict[tuple[int, str | None, int | None], list[dict[str, Any]]] = {}
    for row in ranks.iter_rows(named=True):
        members.setdefault((row["input_id"], row["host"], row["pid"]), []).append(row)
    # NCCL names its version once per process, on rank 0 only: there the other ranks began again, too.
    again: dict[int, list[int]] = {}
    for (input_id, _, _), told in starts.items():
        again.setdefault(input_id, []).extend(sorted(told)[1:])
    found: dict[int, list[_Process]] = {}
    for input_id, host, pid, seen in extents.iter_rows():
        rows = members.get((input_id, host, pid), [])
        lives = sorted({line for line in again.get(input_id, ()) if _repeated(rows, line)})
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


def _repeated(rows: Sequence[Mapping[str, Any]], line: int) -> bool:
    """Whether a rank of before the line comes again behind it."""
    before = {(r["rank"], r["nranks"]) for r in rows if r["line"] < line}
    return any((r["rank"], r["nranks"]) in before for r in rows if r["line"] >= line)


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
    if "end_reason" in ended.columns:
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
    if {"nccl_version", "pid"} <= set(table.columns):
        for input_id, line, pid in (
            table.drop_nulls(["nccl_version", "line"]).select("input_id", "line", "pid").iter_rows()
        ):
            found.setdefault(input_id, []).append((int(line), pid is not None))
    return found


def _cuts(
    own: Sequence[_Process], failures: Iterable[int], restarts: Sequence[int], bare: Iterable[int]
) -> list[int]:
    """Lines at which another attempt or job begins in an input."""
    cuts: list[int] = []
    begin = 0
    reach = own[0].last
    for n in range(1, len(own)):
        if own[n].first > reach:
            left, right = own[begin:n], own[n:]
            said = [line for line in restarts if left[0].first <= line < right[0].first]
            failed = any(left[0].first <= line < right[0].first for line in failures)
            if said or _anew(left, right, failed):
                versions = [line for line in bare if reach < line < right[0].first]
                cuts.append(max(said) + 1 if said else min([*versions, right[0].first]))
                begin = n
        reach = max(reach, own[n].last)
    return cuts


def _anew(left: Sequence[_Process], right: Sequence[_Process], failed: bool) -> bool:
    """Whether the processes on the right are the ranks of the left once more, not more ranks of the same job."""
    if {c for p in left for c in p.comms} & {c for p in right for c in p.comms}:
        return False
    mine, theirs = {r for p in left for r in p.ranks}, {r for p in right for r in p.ranks}
    failed = failed or any(p.open for p in left)
    if not mine:
        hosts = {p.key[0] for p in left}
        return failed and any(p.version for p in left) and any(p.version and p.key[0] in hosts for p in right)
    if max(n for _, n in mine) == 1 or max((n for _, n in theirs), default=1) == 1:
        return False  # processes that should have found each other: separate-jobs, or replicas
    if all(p.closed for p in left if p.ranks) and theirs:
        return True
    reused = bool({p.key[:2] for p in left} & {p.key[:2] for p in right})
    if not reused and {g for p in left for g in p.gpus} & {g for p in right for g in p.gpus}:
        return True
    sizes = {max(n for _, n in mine), max((n for _, n in theirs), default=0)}
    return failed and any(n in sizes for _, n in mine & theirs)


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
    apart = bool(mine and theirs and not mine & theirs)
    return apart or one.size != other.size or bool(one.gpus & other.gpus)


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
