"""Traces of jobs with several parallel dimensions, by a small simulation without hardware; delays are planted.

A rank runs its program in order. A collective occupies each member from its arrival, moves data once the last member
has arrived, and ends on all together; a send and its receive likewise for two. Blocking ones hold up compute.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.trace_maker import event, trace, write

_KERNELS = {
    "allreduce": "AllReduce_Sum_bf16_RING_LL",
    "_allgather_base": "AllGather_RING_LL",
    "_reduce_scatter_base": "ReduceScatter_Sum_bf16_RING_LL",
}
Slow = Callable[[int, int], float]
"""Factor on the compute of (rank, step)."""


@dataclass(frozen=True)
class Group:
    """A process group and its ranks of the job."""

    name: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Op:
    """One instruction: ``compute``, ``idle`` (time without a kernel), ``collective``, ``send``, ``recv``, ``join``
    (wait for all that is under way)."""

    kind: str
    took_us: float = 0.0
    group: Group | None = None
    name: str = ""
    elements: int = 0
    peer: int = -1
    blocking: bool = True
    extra: dict[str, Any] = field(default_factory=dict)
    after: Group | None = None
    """Begins only when what the group has under way on the rank has ended, as streams wait for events."""


@dataclass
class _Rank:
    program: list[tuple[int, Op]]
    now: float = 1000.0
    at: int = 0
    streams: dict[str, float] = field(default_factory=dict)
    open: list[tuple[Any, ...]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    step_start: dict[int, float] = field(default_factory=dict)
    posted: tuple[Any, ...] | None = None


class Simulation:
    """Runs the programs of all ranks; ``write`` makes a trace of each."""

    def __init__(self, programs: dict[int, list[tuple[int, Op]]], world: int) -> None:
        self.world = world
        self.ranks = {r: _Rank(p) for r, p in programs.items()}
        self.arrived: dict[tuple[Any, ...], dict[int, float]] = {}
        self.ended: dict[tuple[Any, ...], float] = {}
        self.meta: dict[tuple[Any, ...], Op] = {}
        self.posts: dict[tuple[tuple[Any, ...], int], Op] = {}
        self._correlation = 0

    def run(self) -> None:
        """Until all programs have ended. Raises RuntimeError on a deadlock."""
        moved = True
        while moved:
            moved = sum(self._advance(r) for r in self.ranks) > 0
        if any(rank.at < len(rank.program) for rank in self.ranks.values()):
            raise RuntimeError("the programs wait for each other")

    def _advance(self, number: int) -> bool:
        rank = self.ranks[number]
        moved = False
        while rank.at < len(rank.program):
            step, op = rank.program[rank.at]
            rank.step_start.setdefault(step, rank.now)
            if op.kind == "compute":
                self._emit(rank, event("kernel", "gemm", rank.now, op.took_us, device=0, stream=7), rank.now - 6)
                rank.now += op.took_us
            elif op.kind == "idle":
                rank.now += op.took_us
            elif op.kind == "join":
                if any(key not in self.ended for key in rank.open):
                    return moved
                rank.now = max([rank.now, *(self.ended[key] for key in rank.open)])
                rank.open.clear()
            elif not self._communicate(number, rank, op):
                return moved
            rank.at += 1
            moved = True
        return moved

    def _communicate(self, number: int, rank: _Rank, op: Op) -> bool:
        """False while the operation cannot go on."""
        if rank.posted is None:
            lane = self._lane(number, op)
            before = rank.streams.get(lane, 0.0)
            if op.after is not None:
                awaited = rank.streams.get(op.after.name, 0.0)
                before = awaited if awaited < 0 else max(before, awaited + 1.0)
            if before < 0 or rank.streams.get(lane, 0.0) < 0:  # the operation before it has not ended
                return False
            count = rank.counts[lane] = rank.counts.get(lane, 0) + 1
            key = (lane, count)
            members = len(op.group.ranks) if op.kind == "collective" and op.group else 2
            rank.posted = (key, lane)
            self.meta[key] = self.posts[key, number] = op
            here = self.arrived.setdefault(key, {})
            here[number] = max(rank.now, before)
            rank.streams[lane] = -1.0
            if len(here) == members:
                self._finish(key)
        key, lane = rank.posted
        if op.blocking:
            if key not in self.ended:
                return False
            rank.now = max(rank.now, self.ended[key])
        else:
            rank.open.append(key)
        rank.posted = None
        return True

    def _lane(self, number: int, op: Op) -> str:
        """The stream of an operation: one a group, and one a pair and direction."""
        assert op.group is not None
        if op.kind == "collective":
            return op.group.name
        src, dst = (number, op.peer) if op.kind == "send" else (op.peer, number)
        return f"{src}>{dst}"

    def _finish(self, key: tuple[Any, ...]) -> None:
        here = self.arrived[key]
        end = max(here.values()) + max(self.posts[key, n].took_us for n in here)
        self.ended[key] = end
        for number, start in here.items():
            rank = self.ranks[number]
            lane = key[0]
            rank.streams[lane] = end
            self._emit(rank, self._kernel(number, key, start, end), start - 8)

    def _kernel(self, number: int, key: tuple[Any, ...], start: float, end: float) -> dict[str, Any]:
        op = self.posts[key, number]
        assert op.group is not None
        name, extra = op.name, {"Seq": key[1]}
        kernel = f"ncclDevKernel_{_KERNELS.get(name, 'SendRecv')}(ncclDevKernelArgsStorage<4096ul>)"
        if op.kind in ("send", "recv"):
            src, dst = map(int, key[0].split(">"))
            name = "send" if number == src else "recv"
            extra |= {"Dst Rank": dst} if number == src else {"Src Rank": src}
        n = len(op.group.ranks)
        return event(
            "kernel", kernel, start, end - start, device=0, stream=20 + sum(map(ord, key[0])) % 1000, **{
                "Collective name": name, "In msg nelems": op.elements,
                "Out msg nelems": op.elements * (n if "allgather" in name else 1), "Group size": n,
                "dtype": "BFloat16", "Process Group Name": op.group.name,
                "Process Group Ranks": str(list(op.group.ranks)), **extra, **op.extra,
            },
        )  # fmt: skip

    def _emit(self, rank: _Rank, item: dict[str, Any], launched: float) -> None:
        self._correlation += 1
        item["args"]["correlation"] = self._correlation
        rank.events.append(item)
        call = event("cuda_runtime", "cudaLaunchKernelExC", launched, 3.0, correlation=self._correlation)
        rank.events.append(call)

    def write(
        self,
        folder: Path,
        clock_us: Callable[[int], float] = lambda _r: 0.0,
        annotated: bool = True,
        host: Callable[[int], str | None] = lambda _r: None,
        without: tuple[int, ...] = (),
        lost: Callable[[int], float] = lambda _r: 0.0,
    ) -> list[Path]:
        """A trace a rank.

        ``clock_us`` shifts the clock of a rank, ``annotated=False`` leaves out the steps, ``without`` names ranks
        that were not recorded, ``lost`` is the share of a rank's events that its profiler dropped.
        """
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        rng = random.Random(5)
        for number, rank in self.ranks.items():
            if number in without:
                continue
            starts = sorted(rank.step_start.items()) if annotated else []
            events = [dict(e) for e in rank.events if rng.random() >= lost(number)]
            for i, (step, start) in enumerate(starts):
                end = starts[i + 1][1] if i + 1 < len(starts) else rank.now
                events.append(event("user_annotation", f"ProfilerStep#{step}", start - 20, end - start))
            for item in events:
                item["ts"] = round(item["ts"] + clock_us(number), 3)
                item["dur"] = round(item["dur"], 3)
            content = trace(number, self.world, events, host_name=host(number))
            if host(number) is None:
                del content["host_name"]
            paths.append(write(folder / f"rank{number}.json", content))
        return paths


@dataclass(frozen=True)
class Layout:
    """Ranks by pipeline stage, data-parallel copy and place in the tensor group: tp fastest, then dp, then pp."""

    tp: int
    dp: int
    pp: int

    @property
    def world(self) -> int:
        return self.tp * self.dp * self.pp

    def rank(self, stage: int, copy: int, place: int) -> int:
        return (stage * self.dp + copy) * self.tp + place

    def places(self) -> Iterator[tuple[int, int, int, int]]:
        """``rank, stage, copy, place``."""
        for stage in range(self.pp):
            for copy in range(self.dp):
                for place in range(self.tp):
                    yield self.rank(stage, copy, place), stage, copy, place

    def tensor(self, stage: int, copy: int) -> Group:
        return Group(f"tp{stage}.{copy}", tuple(self.rank(stage, copy, i) for i in range(self.tp)))

    def data(self, stage: int, place: int) -> Group:
        return Group(f"dp{stage}.{place}", tuple(self.rank(stage, c, place) for c in range(self.dp)))

    def pipeline(self, copy: int, place: int) -> Group:
        return Group(f"pp{copy}.{place}", tuple(self.rank(s, copy, place) for s in range(self.pp)))


def never(_rank: int, _step: int) -> float:
    return 1.0


def training(
    layout: Layout, steps: int = 6, slow: Slow = never, micro: int = 4, layers: int = 2, overlap: bool = False,
    experts: bool = False, link: Callable[[int, int], float] = lambda _a, _b: 1.0, final: bool = True, seed: int = 1,
) -> Simulation:  # fmt: skip
    """Training steps: micro-batches through the pipeline (all forward, then all backward), then gradients.

    Each layer computes and reduces in the tensor group; with ``experts`` it exchanges tokens with all members of the
    data group before and after. Gradients are reduced per layer, under the backward compute with ``overlap``.
    ``link`` is a factor on the time of a transfer between two ranks; ``final`` adds a small reduction over all.
    """
    rng = random.Random(seed)
    everyone = Group("world", tuple(range(layout.world)))
    programs: dict[int, list[tuple[int, Op]]] = {}
    for rank, stage, copy, place in layout.places():
        tensor, data = layout.tensor(stage, copy), layout.data(stage, place)
        pipe = layout.pipeline(copy, place)
        made: list[tuple[int, Op]] = []
        for step in range(steps):

            def add(op: Op, step: int = step, made: list[tuple[int, Op]] = made) -> None:
                made.append((step, op))

            def work(took: float, step: int = step, rank: int = rank) -> Op:
                return Op("compute", took * slow(rank, step) * rng.gauss(1.0, 0.01))

            def move(kind: str, peer: int, rank: int = rank, pipe: Group = pipe) -> Op:
                pair = (rank, peer) if kind == "send" else (peer, rank)
                return Op(kind, 120.0 * link(*pair), pipe, kind, 1 << 22, peer, kind == "recv")

            for back in (False, True):
                before, after = (stage - 1, stage + 1) if not back else (stage + 1, stage - 1)
                for batch in range(micro):
                    if 0 <= before < layout.pp:
                        add(move("recv", layout.rank(before, copy, place)))
                    for _ in range(layers):
                        if experts:
                            add(Op("collective", 90.0, data, "all_to_all", 1 << 21))
                        add(work(800.0 if back else 400.0))
                        if experts:
                            add(Op("collective", 90.0, data, "all_to_all", 1 << 21))
                        if layout.tp > 1:
                            add(Op("collective", 60.0, tensor, "allreduce", 1 << 22))
                        if back and overlap and batch == micro - 1 and layout.dp > 1:
                            add(Op("collective", 300.0, data, "_reduce_scatter_base", 1 << 24, blocking=False))
                    if 0 <= after < layout.pp:
                        add(move("send", layout.rank(after, copy, place)))
            if layout.dp > 1 and not overlap:
                add(Op("collective", 400.0, data, "allreduce", 1 << 24))
            add(Op("join"))
            if final:
                add(Op("collective", 15.0, everyone, "allreduce", 1024))
            add(work(100.0))
        programs[rank] = made
    simulation = Simulation(programs, layout.world)
    simulation.run()
    return simulation
