"""More shapes of jobs for the simulation: schedules that interleave, shards fetched ahead, rings, experts, decoding.

Every builder takes a ``Plan`` with the faults to plant and returns the simulation after its run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.job_maker import Group, Layout, Op, Simulation, Slow, never


@dataclass(frozen=True)
class Plan:
    """What is planted: ``slow`` on compute and ``pause_us`` by (rank, step), ``link`` and ``group`` on transfers."""

    slow: Slow = never
    link: Callable[[int, int], float] = lambda _a, _b: 1.0
    pause_us: Callable[[int, int], float] = lambda _r, _s: 0.0
    group: Callable[[Group], float] = lambda _g: 1.0
    jitter: float = 0.01
    steps: int = 6
    seed: int = 3


class _Builder:
    """Collects the program of one rank."""

    def __init__(self, plan: Plan, rank: int) -> None:
        self.plan, self.rank, self.step = plan, rank, 0
        self.program: list[tuple[int, Op]] = []
        self.rng = random.Random(plan.seed * 1000 + rank)

    def begin(self, step: int) -> None:
        self.step = step
        pause = self.plan.pause_us(self.rank, step)
        if pause:
            self.work(pause, exact=True)

    def work(self, took_us: float, exact: bool = False) -> None:
        factor = 1.0 if exact else self.plan.slow(self.rank, self.step) * self.rng.gauss(1.0, self.plan.jitter)
        self.program.append((self.step, Op("compute", took_us * max(factor, 0.2))))

    def together(
        self, name: str, group: Group, took_us: float, elements: int, blocking: bool = True,
        after: Group | None = None, **extra: object,
    ) -> None:  # fmt: skip
        if len(group.ranks) > 1:
            took = took_us * self.plan.group(group)
            op = Op("collective", took, group, name, elements, blocking=blocking, extra=dict(extra), after=after)
            self.program.append((self.step, op))

    def move(self, kind: str, group: Group, peer: int, took_us: float = 120.0, blocking: bool = True) -> None:
        pair = (self.rank, peer) if kind == "send" else (peer, self.rank)
        took = took_us * self.plan.link(*pair)
        self.program.append((self.step, Op(kind, took, group, kind, 1 << 22, peer, blocking)))

    def join(self) -> None:
        self.program.append((self.step, Op("join")))


def _run(builders: list[_Builder], world: int) -> Simulation:
    simulation = Simulation({b.rank: b.program for b in builders}, world)
    simulation.run()
    return simulation


def alternating(layout: Layout, plan: Plan, micro: int = 6) -> Simulation:
    """One forward, one backward (1F1B) after the warm-up of each stage; sequence-parallel tensor groups; buckets of
    gradients under the last backward passes."""
    builders = []
    for rank, stage, copy, place in layout.places():
        b = _Builder(plan, rank)
        tensor, data, pipe = (layout.tensor(stage, copy), layout.data(stage, place), layout.pipeline(copy, place))

        def layer(b: _Builder, took: float, tensor: Group = tensor) -> None:
            b.together("_allgather_base", tensor, 45.0, 1 << 20)
            b.work(took)
            b.together("_reduce_scatter_base", tensor, 45.0, 1 << 22)

        for step in range(plan.steps):
            b.begin(step)
            warm = min(layout.pp - 1 - stage, micro)
            order = ["f"] * warm + ["f", "b"] * (micro - warm) + ["b"] * warm
            backs = 0
            for kind in order:
                before, after = (stage - 1, stage + 1) if kind == "f" else (stage + 1, stage - 1)
                if 0 <= before < layout.pp:
                    b.move("recv", pipe, layout.rank(before, copy, place))
                backs += kind == "b"
                for _ in range(2):
                    layer(b, 350.0 if kind == "f" else 700.0)
                    if kind == "b" and backs == micro:
                        b.together("_reduce_scatter_base", data, 250.0, 1 << 24, blocking=False)
                if 0 <= after < layout.pp:
                    b.move("send", pipe, layout.rank(after, copy, place), blocking=False)
            b.join()
            b.work(150.0)
            b.together("_allgather_base", data, 300.0, 1 << 22)
        builders.append(b)
    return _run(builders, layout.world)


def sharded(layout: Layout, plan: Plan, layers: int = 6) -> Simulation:
    """Shards (the data groups) fetched one layer ahead on a stream of their own, copies of the whole (``pp``) reduced
    at the end (hybrid sharding), with tensor groups."""
    builders = []
    for rank, stage, copy, place in layout.places():
        b = _Builder(plan, rank)
        tensor, shard, replica = (layout.tensor(stage, copy), layout.data(stage, place), layout.pipeline(copy, place))
        for step in range(plan.steps):
            b.begin(step)
            for took in (300.0, 620.0):
                b.together("_allgather_base", shard, 180.0, 1 << 22)
                for i in range(layers):
                    if i + 1 < layers:
                        b.together("_allgather_base", shard, 180.0, 1 << 22, blocking=False)
                    b.work(took)
                    b.together("allreduce", tensor, 50.0, 1 << 21)
                    b.join()
                    if took > 500:
                        b.together("_reduce_scatter_base", shard, 190.0, 1 << 24, blocking=False)
            b.join()
            b.together("allreduce", replica, 260.0, 1 << 22)
            b.work(80.0)
        builders.append(b)
    return _run(builders, layout.world)


def replicated(layout: Layout, plan: Plan, layers: int = 6) -> Simulation:
    """Shards on a host (the ``tp`` place) and copies over hosts (``dp``), with per-layer gradients: scattered over the
    shards under backward compute, and what comes out of that reduced over the copies on another stream."""
    builders = []
    for rank, stage, copy, place in layout.places():
        b = _Builder(plan, rank)
        shard, replica = layout.tensor(stage, copy), layout.data(stage, place)
        for step in range(plan.steps):
            b.begin(step)
            for took in (300.0, 600.0):
                b.together("_allgather_base", shard, 90.0, 1 << 22)
                for i in range(layers):
                    b.work(took)
                    b.work(took / 2)
                    if took > 500:
                        b.together("_reduce_scatter_base", shard, 90.0, 1 << 24, blocking=False)
                        b.together("allreduce", replica, 200.0, 1 << 22, blocking=False, after=shard)
                    if i == 2:
                        b.work(took / 2)
            b.join()
            b.work(80.0)
        builders.append(b)
    return _run(builders, layout.world)


def fetched_under_tensor_groups(layout: Layout, plan: Plan, layers: int = 6) -> Simulation:
    """Shards (the data groups) fetched one layer ahead, two reductions of the tensor group in each layer: a rank that
    waits in those is behind when the shards arrive, and computes on while the others wait for the next ones."""
    builders = []
    for rank, stage, copy, place in layout.places():
        b = _Builder(plan, rank)
        tensor, shard = layout.tensor(stage, copy), layout.data(stage, place)
        for step in range(plan.steps):
            b.begin(step)
            b.together("_allgather_base", shard, 180.0, 1 << 22)
            for took in (300.0, 620.0):
                for i in range(layers):
                    if i + 1 < layers or took < 500:
                        b.together("_allgather_base", shard, 180.0, 1 << 22, blocking=False)
                    for part in (0.3 * took, took):
                        b.work(part)
                        b.together("allreduce", tensor, 50.0, 1 << 21)
                    b.join()
            b.together("_reduce_scatter_base", shard, 400.0, 1 << 26)
            b.work(80.0)
        builders.append(b)
    return _run(builders, layout.world)


def rings(layout: Layout, plan: Plan, layers: int = 3) -> Simulation:
    """Ring attention (context parallel, the ``dp`` place), tensor groups, gradients over the ``pp`` place."""
    builders = []
    for rank, stage, copy, place in layout.places():
        b = _Builder(plan, rank)
        tensor, ring, data = (layout.tensor(stage, copy), layout.data(stage, place), layout.pipeline(copy, place))
        n = layout.dp
        after, before = layout.rank(stage, (copy + 1) % n, place), layout.rank(stage, (copy - 1) % n, place)
        for step in range(plan.steps):
            b.begin(step)
            for took in (150.0, 320.0):
                for _ in range(layers):
                    for turn in range(n):
                        if turn + 1 < n:
                            b.move("send", ring, after, 100.0, blocking=False)
                            b.move("recv", ring, before, 100.0, blocking=False)
                        b.work(took)
                        b.join()
                    b.together("allreduce", tensor, 60.0, 1 << 22)
            b.together("allreduce", data, 420.0, 1 << 24)
            b.work(60.0)
        builders.append(b)
    return _run(builders, layout.world)


def experts(layout: Layout, plan: Plan, hot: int | None = None, layers: int = 3, varied: float = 0.0) -> Simulation:
    """Mixture of experts: tokens exchanged over the data groups before and after each expert; tensor groups; gradients
    over the ``pp`` place. ``hot``: this place of every data group gets four times the mean share, and works longer.
    ``varied``: every exchange varies by this share, the busiest expert changing."""
    builders = []
    for rank, stage, copy, place in layout.places():
        b = _Builder(plan, rank)
        tensor, group, data = (layout.tensor(stage, copy), layout.data(stage, place), layout.pipeline(copy, place))
        n = layout.dp
        tokens = 1 << 20
        for step in range(plan.steps):
            b.begin(step)
            for i in range(2 * layers):
                share = [1.0] * n
                shared_rng = random.Random(step * 100 + i)
                if varied:
                    share[shared_rng.randrange(n)] += varied
                if hot is not None:
                    share[hot] = 4.0
                parts = [round(tokens * s / sum(share)) for s in share]
                long = n * parts[copy] / tokens
                b.work(250.0)
                b.together("allreduce", tensor, 50.0, 1 << 21)
                worst = n * max(parts) / tokens
                b.together(
                    "all_to_allv",
                    group,
                    120.0 * worst,
                    tokens,
                    **{"In split size": str(parts), "Out split size": str([parts[copy]] * n)},
                )
                b.work(200.0 * long)
                b.together(
                    "all_to_allv",
                    group,
                    120.0 * worst,
                    parts[copy] * n,
                    **{"In split size": str([parts[copy]] * n), "Out split size": str(parts)},
                )
            b.together("allreduce", data, 300.0, 1 << 24)
            b.work(60.0)
        builders.append(b)
    return _run(builders, layout.world)


def decoding(layout: Layout, plan: Plan, tokens: int = 60) -> Simulation:
    """Serving: small reductions in the tensor groups, experts' exchange over the data groups, stages one after the
    other; no steps."""
    builders = []
    for rank, stage, copy, place in layout.places():
        b = _Builder(plan, rank)
        tensor, group, pipe = (layout.tensor(stage, copy), layout.data(stage, place), layout.pipeline(copy, place))
        for token in range(tokens):
            b.begin(token * plan.steps // tokens)
            if stage > 0:
                b.move("recv", pipe, layout.rank(stage - 1, copy, place), 20.0)
            for _ in range(3):
                b.work(90.0)
                b.together("allreduce", tensor, 14.0, 1 << 15)
                b.together("all_to_all", group, 25.0, 1 << 15)
            if stage + 1 < layout.pp:
                b.move("send", pipe, layout.rank(stage + 1, copy, place), 20.0, blocking=False)
        b.join()
        builders.append(b)
    return _run(builders, layout.world)


def gathered(layout: Layout, plan: Plan, layers: int = 8) -> Simulation:
    """Context parallel (the ``dp`` place) that gathers keys under the attention to its own part; tensor groups; at
    the end of a step gradients over all. No gather ever holds up all its members."""
    builders = []
    everyone = Group("world", tuple(range(layout.world)))
    for rank, stage, copy, place in layout.places():
        b = _Builder(plan, rank)
        context, tensor = layout.data(stage, place), layout.tensor(stage, copy)
        for step in range(plan.steps):
            b.begin(step)
            for _ in range(layers):
                b.together("_allgather_base", context, 200.0, 1 << 21, blocking=False)
                b.work(260.0)
                b.join()
                b.work(300.0)
                b.together("allreduce", tensor, 50.0, 1 << 21)
            b.together("allreduce", everyone, 190.0, 1 << 24)
            b.work(60.0)
        builders.append(b)
    return _run(builders, layout.world)
