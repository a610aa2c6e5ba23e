"""What belongs together: parts of inputs whose processes share communicators, or that nothing tells apart."""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from itertools import islice, pairwise

import polars as pl

from nccl_insight.base.data import dataclass, replace
from nccl_insight.base.grouping import grouped
from nccl_insight.facts.said.clock import ERROR_STAMPS, with_time
from nccl_insight.facts.said.course import course
from nccl_insight.facts.said.errors import BENIGN, causes
from nccl_insight.facts.who.parts.cuts import cuts_of
from nccl_insight.facts.who.parts.processes import Gpu, Process, processes_of
from nccl_insight.facts.who.parts.rows import END, Span
from nccl_insight.readers.embedded.endings import AT_THE_END
from nccl_insight.tables.run import Run

# So many lines behind a restart say nothing of the attempt that it begins: they are the launcher's own.
_SILENT = 20


@dataclass(frozen=True)
class World:
    """What belongs together: spans, and what tells it from others."""

    spans: tuple[Span, ...]
    comms: frozenset[str] = frozenset()
    gpus: frozenset[Gpu] = frozenset()
    ranks: frozenset[tuple[int, int]] = frozenset()
    size: int = 0
    failed: bool = False
    restarted: bool = False

    @cached_property
    def inputs(self) -> frozenset[int]:
        """The inputs that hold lines of it."""
        return frozenset(span.input_id for span in self.spans)


def _joined(worlds: Sequence[World]) -> World:
    """All as one."""
    if len(worlds) == 1:
        return worlds[0]
    return World(
        tuple(span for w in worlds for span in w.spans),
        frozenset[str]().union(*(w.comms for w in worlds)),
        frozenset[Gpu]().union(*(w.gpus for w in worlds)),
        frozenset[tuple[int, int]]().union(*(w.ranks for w in worlds)),
        max(w.size for w in worlds),
        any(w.failed for w in worlds),
        any(w.restarted for w in worlds),
    )


def worlds_of(run: Run) -> list[World]:
    """The worlds of a run in the order of its inputs and lines."""
    if run.table("ranks").drop_nulls(["rank", "nranks", "line"]).is_empty():
        return _between_restarts(run)
    processes, failures, restarts = processes_of(run), _failures(run), _restarts(run)
    benches = {*run.table("benchmarks")["input_id"].drop_nulls()}
    # Lines with which NCCL names its version, without a head.
    banners = _by_input(run.table("versions").drop_nulls("nccl_version").filter(pl.col("pid").is_null()))
    lengths = _lengths(run)
    found: list[World] = []
    for input_id, own in ((i, processes[i]) for i in lengths if i in processes):
        lines, again = sorted(failures.get(input_id, [])), sorted(restarts.get(input_id, []))
        cuts = cuts_of(own, lines, again, banners.get(input_id, []))
        # An attempt may print no line of NCCL.
        cuts += [line + 1 for line in again[-1:] if max(p.last for p in own) < line < lengths[input_id] - _SILENT]
        begins = [p.first for p in own]
        for first, last in pairwise([0, *cuts, END]):
            inside = own[bisect_left(begins, first) : bisect_left(begins, last)]
            restarted = input_id not in benches and last != END and _within(again, first, last + 1)
            found.append(_world(Span(input_id, first, last), inside, _within(lines, first, last), restarted))
    # A scheduler's word in a file of its own ended what the job's files go on behind.
    outside = [i for i in lengths if i not in processes]
    ended = run.table("errors").filter(pl.col("input_id").is_in(outside))["end_reason"].drop_nulls().len() > 0
    found = [replace(world, failed=world.failed or ended) for world in found]
    return _with_others(alike(tied(found), _releases(run)), outside)


def _within(lines: Sequence[int], first: int, last: int) -> bool:
    """Whether one of the lines, which are sorted, is from ``first`` on and before ``last``."""
    return bisect_left(lines, first) < bisect_left(lines, last)


def _world(span: Span, inside: Sequence[Process], failed: bool, restarted: bool) -> World:
    """The world of the processes of a span."""
    return World(
        (span,),
        frozenset(c for p in inside for c in p.comms),
        frozenset(g for p in inside for g in p.gpus),
        frozenset(r for p in inside for r in p.ranks),
        max((n for p in inside for _, n in p.ranks), default=0),
        failed or any(p.open for p in inside),
        restarted,
    )


def _between_restarts(run: Run) -> list[World]:
    """Where no line tells processes: what failed between the lines with which launchers start the workers again."""
    again = _restarts(run)
    failures = _failures(run) if again else {}
    cuts: dict[int, list[int]] = {}
    real = 0
    lengths = _lengths(run)
    for input_id, lines in again.items():
        failed, own = sorted(set(failures.get(input_id, ())) - set(lines)), [0]
        seen = max(*failed, lengths.get(input_id, END) - _SILENT) if failed else 0
        for line in sorted(lines):
            if _within(failed, own[-1], line):
                own.append(line + 1)
        cuts[input_id] = own
        real = max(real, sum(begin <= seen for begin in own[1:]))
    # What one input tells of an attempt is true of the others, which may say nothing more.
    cuts = {i: [*own[: real + 1], END] for i, own in cuts.items() if len(own) > real > 0}
    inputs = run.table("inputs")["input_id"].drop_nulls().to_list()
    parts = [World(tuple(Span(i, *own[n : n + 2]) for i, own in cuts.items()), restarted=True) for n in range(real + 1)]
    return _with_others(parts, [i for i in inputs if i not in cuts]) if cuts else []


def _failures(run: Run) -> dict[int, list[int]]:
    """Lines by input that report a failure, or the end of the job from outside."""
    failed = pl.col("loud") & (pl.col("cause") != BENIGN) & pl.col("role").is_in(["root", "effect"])
    ended = run.table("endings").filter(~pl.col("kind").is_in(list(AT_THE_END)))
    return _by_input(causes(run).filter(failed), ended)


def _lengths(run: Run) -> dict[int, int]:
    return dict(run.table("inputs").select("input_id", pl.col("lines").fill_null(END)).iter_rows())


def _restarts(run: Run) -> dict[int, list[int]]:
    """Lines by input with which a launcher or scheduler says that it starts the job again, or behind which it does."""
    rows = run.table("errors").drop_nulls("end_reason")
    if rows.is_empty():
        return _by_input(run.table("restarts"))
    rows = with_time(run, rows, *ERROR_STAMPS)
    again = [course(run).counted_on(*at) for at in rows.select("input_id", "line", "time_s").iter_rows()]
    requeued = rows["end_reason"].str.to_uppercase().str.ends_with("REQUEUE")
    return _by_input(run.table("restarts"), rows.filter(requeued | pl.Series(again)))


def _by_input(*frames: pl.DataFrame) -> dict[int, list[int]]:
    rows = pl.concat([frame.select("input_id", "line").drop_nulls() for frame in frames])
    return dict(rows.group_by("input_id", maintain_order=True).agg("line").iter_rows())


def tied(worlds: Sequence[World]) -> list[World]:
    """Worlds that share a communicator are one, in the place of the first."""
    first_of = list(range(len(worlds)))

    def first(number: int) -> int:
        while first_of[number] != number:
            first_of[number] = first_of[first_of[number]]
            number = first_of[number]
        return number

    with_comm: dict[str, int] = {}
    for number, world in enumerate(worlds):
        shared = {first(with_comm[c]) for c in world.comms if c in with_comm}
        for other in (*shared, number):
            first_of[other] = min(shared, default=number)
        with_comm.update(dict.fromkeys(world.comms, number))
    return [_joined(group) for group in grouped((first(n), world) for n, world in enumerate(worlds)).values()]


class _Gathered:
    """Worlds that nothing tells apart so far."""

    def __init__(self) -> None:
        self.members: list[World] = []
        self.inputs: set[int] = set()
        self._comms = False
        self._versions: set[str] = set()
        self._gpus: set[Gpu] = set()
        self._ranks: set[tuple[int, int]] = set()
        self._size = 0

    def add(self, world: World, versions: Collection[str]) -> None:
        """Takes a world, of whose communicators these are the versions of NCCL."""
        self.members.append(world)
        self.inputs |= world.inputs
        self._comms |= bool(world.comms)
        self._versions.update(versions)
        self._gpus |= world.gpus
        self._ranks |= world.ranks
        self._size = max(self._size, world.size)

    def takes(self, world: World, versions: Collection[str]) -> bool:
        """Whether the world may be of the same job: of other inputs, and nothing says that it is another."""
        if not self.inputs.isdisjoint(world.inputs):
            return False
        if not (self._comms and world.comms):
            return True
        apart = bool(self._versions and versions) and self._versions.isdisjoint(versions)
        if self._size != world.size or not self._gpus.isdisjoint(world.gpus):
            return False
        return not apart or self._completes(world)

    def _completes(self, world: World) -> bool:
        """Whether each has ranks that the other lacks: one job whose hosts have different releases prints that, too."""
        mine = {rank for rank, n in self._ranks if n == self._size}
        theirs = {rank for rank, n in world.ranks if n == world.size}
        return not mine & theirs and len(mine) + len(theirs) <= world.size


def _releases(run: Run) -> dict[str, str]:
    """NCCL's versions by communicator."""
    table = run.table("communicators").drop_nulls("comm_id")
    return {c: ",".join(v or ()) for c, v in table.select("comm_id", "nccl_versions").iter_rows()}


def alike(worlds: Sequence[World], releases: Mapping[str, str]) -> list[World]:
    """Worlds that nothing tells apart are one: groups of a job that have no communicator in common.

    ``releases``: NCCL's versions by communicator.
    """
    found: list[_Gathered] = []
    # As many places from the first on have a world of the input already: a log may have thousands of attempts.
    full: dict[int, int] = {}
    for world in worlds:
        versions = {v for c in world.comms if (v := releases.get(c))}
        begin = max((full.get(i, 0) for i in world.inputs), default=0)
        place = next((known for known in islice(found, begin, None) if known.takes(world, versions)), None)
        if place is None:
            place = _Gathered()
            found.append(place)
        place.add(world, versions)
        for i in world.inputs:
            while full.get(i, 0) < len(found) and i in found[full.get(i, 0)].inputs:
                full[i] = full.get(i, 0) + 1
    return [_joined(known.members) for known in found]


def _with_others(worlds: Sequence[World], outside: Sequence[int]) -> list[World]:
    """Inputs without processes (a kernel log, a topology file) belong to every world."""
    more = tuple(Span(i) for i in outside)
    return [replace(w, spans=(*w.spans, *more)) for w in worlds]
