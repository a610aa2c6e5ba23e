"""What belongs together: parts of inputs whose processes share communicators, or that nothing tells apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import polars as pl

from nccl_insight.facts.errors import BENIGN, causes
from nccl_insight.facts.parts.cuts import cuts_of
from nccl_insight.facts.parts.processes import Gpu, processes_of
from nccl_insight.facts.parts.rows import END, Span
from nccl_insight.readers.embedded.endings import AT_THE_END
from nccl_insight.tables.run import Run


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

    def joined(self, other: World) -> World:
        """Both as one."""
        return World(
            (*self.spans, *other.spans), self.comms | other.comms, self.gpus | other.gpus,
            self.ranks | other.ranks, max(self.size, other.size), self.failed or other.failed,
            self.restarted or other.restarted,
        )  # fmt: skip


def worlds_of(run: Run) -> list[World]:
    """The worlds of a run in the order of its inputs and lines."""
    ranks = run.table("ranks").drop_nulls(["rank", "nranks", "line"])
    if ranks.is_empty():
        return []
    found: list[World] = []
    outside: list[int] = []
    processes = processes_of(run, ranks)
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
        cuts = cuts_of(own, lines, again, bare)
        for n, (first, last) in enumerate(pairwise([0, *cuts, END])):
            inside = [p for p in own if first <= p.first < last]
            found.append(
                World(
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


def _failures(run: Run) -> dict[int, list[int]]:
    """Lines by input that report a failure, or the end of the job from outside."""
    rows = causes(run).filter(
        pl.col("loud") & (pl.col("cause") != BENIGN) & pl.col("line").is_not_null()
        & pl.col("role").is_in(["root", "effect"])
    )  # fmt: skip
    found: dict[int, list[int]] = {}
    for input_id, line in rows.select("input_id", "line").iter_rows():
        found.setdefault(input_id, []).append(int(line))
    for input_id, line in _ended(run).iter_rows():
        found.setdefault(input_id, []).append(int(line))
    return found


def _ended(run: Run) -> pl.DataFrame:
    rows = run.table("endings").filter(~pl.col("kind").is_in(list(AT_THE_END)))
    return rows.select("input_id", "line").drop_nulls()


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


def _tied(worlds: Sequence[World]) -> list[World]:
    """Worlds that share a communicator are one."""
    found: list[World] = []
    for world in worlds:
        shared = [w for w in found if w.comms & world.comms]
        joined = world
        for w in reversed(shared):
            joined = w.joined(joined)
        at = found.index(shared[0]) if shared else len(found)
        found = [w for w in found if w not in shared]
        found.insert(at, joined)
    return found


def in_sequence(one: World, other: World) -> bool:
    """Whether both have lines of one input, one after the other."""
    return bool({s.input_id for s in one.spans} & {s.input_id for s in other.spans})


def _differ(one: World, other: World, ids: Mapping[str, str]) -> bool:
    """Whether two worlds of different inputs are certainly not parts of one job."""
    if not (one.comms and other.comms):
        return False
    mine = {v for c in one.comms if (v := ids.get(c))}
    theirs = {v for c in other.comms if (v := ids.get(c))}
    apart = bool(mine and theirs and not mine & theirs) and not _complete_each_other(one, other)
    return apart or one.size != other.size or bool(one.gpus & other.gpus)


def _complete_each_other(one: World, other: World) -> bool:
    """Whether each has ranks that the other lacks: one job whose hosts have different releases prints that, too."""
    mine = {rank for rank, n in one.ranks if n == one.size}
    theirs = {rank for rank, n in other.ranks if n == other.size}
    return one.size == other.size and not mine & theirs and len(mine) + len(theirs) <= one.size


def _grouped(run: Run, worlds: Sequence[World]) -> list[World]:
    """Worlds that nothing tells apart are one: groups of a job that have no communicator in common."""
    table = run.table("communicators").drop_nulls("comm_id")
    ids = {c: ",".join(v or ()) for c, v in table.select("comm_id", "nccl_versions").iter_rows()}
    found: list[World] = []
    for world in worlds:
        for n, known in enumerate(found):
            if not in_sequence(known, world) and not _differ(known, world, ids):
                found[n] = known.joined(world)
                break
        else:
            found.append(world)
    return found


def _with_others(worlds: Sequence[World], outside: Sequence[int]) -> list[World]:
    """Inputs without processes (a kernel log, a topology file) belong to every world."""
    more = tuple(Span(i) for i in outside)
    return [replace(w, spans=(*w.spans, *more)) for w in worlds]
