"""Why a rank is late, and waiting or slowness that is nobody's fault: the user's data, compute beside a transfer."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

import nccl_insight
from nccl_insight.base.model import Finding, Severity
from nccl_insight.facts.lateness.late_reason import reason
from tests.job_maker import Group, Op, Simulation

STEPS: Final = 8
EVERY: Final = range(8)
WORLD: Final = Group("0", tuple(EVERY))
Program = list[tuple[int, Op]]


def compute(took_us: float) -> Op:
    return Op("compute", took_us)


def reduce(group: Group, took_us: float, blocking: bool = True, name: str = "allreduce") -> Op:
    return Op("collective", took_us, group, name, 1 << 24, blocking=blocking)


def job(program: Callable[[int, int, random.Random], list[Op]], world: int = 8) -> Simulation:
    """``program`` gives the operations of (rank, step)."""
    programs: dict[int, Program] = {}
    for rank in range(world):
        rng = random.Random(rank)
        programs[rank] = [(s, op) for s in range(STEPS) for op in program(rank, s, rng)]
    simulation = Simulation(programs, world)
    simulation.run()
    return simulation


def findings(paths: list[Path]) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for finding in nccl_insight.analyze(nccl_insight.load(paths)).findings:
        found.setdefault(finding.name, []).append(finding)
    return found


def four(longer: float = 1.0, more: int = 0, idle_us: float = 5.0) -> Callable[..., list[Op]]:
    """Four kernels and a reduction; rank 6 is given longer ones, more of them, or launches late."""

    def program(rank: int, _step: int, rng: random.Random) -> list[Op]:
        late = rank == 6
        ops = []
        for _ in range(4 + (more if late else 0)):
            ops += [Op("idle", idle_us if late else 5.0), compute(rng.gauss(500, 5) * (longer if late else 1))]
        return [*ops, reduce(WORLD, 200.0), compute(100.0)]

    return program


@pytest.mark.parametrize(
    ("planted", "kind", "text", "look"),
    [
        (four(longer=1.25), "kernels", "compute kernels take 2", "CLOCK"),
        (four(more=1), "work", "more kernels than the others", "micro-batches"),
        (four(idle_us=140.0), "host", "idle until the CPU launches", "py-spy"),
    ],
)
def test_the_reason_is_told_with_the_rank(
    tmp_path: Path, planted: Callable[..., list[Op]], kind: str, text: str, look: str
) -> None:
    paths = job(planted).write(tmp_path)
    found = reason(nccl_insight.load(paths), [6], list(EVERY))
    assert found is not None
    assert found.kind == kind
    assert 400_000 < found.excess_ns < 600_000  # planted: 500 us in each case, 540 for the CPU
    (straggler,) = findings(paths)["straggler-rank"]
    assert straggler.ranks == (6,)
    assert text in straggler.explanation
    assert look in str(straggler.next_step)


def test_without_a_difference_there_is_no_reason(tmp_path: Path) -> None:
    run = nccl_insight.load(job(four()).write(tmp_path))
    assert reason(run, [6], list(EVERY)) is None
    assert reason(run, [6], [6]) is None
    assert reason(run, [6], list(EVERY), steps=[77]) is None


def test_a_rank_late_once_because_of_its_cpu(tmp_path: Path) -> None:
    def program(rank: int, step: int, rng: random.Random) -> list[Op]:
        pause = [Op("idle", 20_000.0)] if (rank, step) == (3, 5) else []
        return [*pause, compute(rng.gauss(2000, 20)), reduce(WORLD, 200.0)]

    (once,) = findings(job(program).write(tmp_path))["late-once"]
    assert once.ranks == (3,)
    assert re.search(r"idle until the CPU launches, (19\.9|20\.0)\d? ms in it longer", once.explanation)


def test_waiting_that_compute_covers_is_no_skew(tmp_path: Path) -> None:
    """The ranks reach the reductions 300 us apart and compute on; nobody stands."""

    def program(rank: int, step: int, _rng: random.Random) -> list[Op]:
        first = 100.0 * ((rank + step) % 4)
        return [
            compute(1000 + first),
            reduce(WORLD, 200.0, blocking=False),
            compute(2000 - first),
            Op("join"),
            compute(50.0),
        ]

    assert not {"collective-skew", "straggler-rank"} & set(findings(job(program).write(tmp_path)))


def test_waiting_in_the_open_is_skew(tmp_path: Path) -> None:
    def program(rank: int, step: int, _rng: random.Random) -> list[Op]:
        order = list(EVERY)
        random.Random(step).shuffle(order)
        return [compute(1000 + 100.0 * order[rank]), reduce(WORLD, 200.0), *[reduce(WORLD, 20.0)] * 3]

    found = findings(job(program).write(tmp_path))
    assert [f.severity for f in found["collective-skew"]] == [Severity.WARNING]
    assert "straggler-rank" not in found


def test_experts_wait_for_tokens(tmp_path: Path) -> None:
    def program(rank: int, step: int, _rng: random.Random) -> list[Op]:
        ops = []
        for turn in range(4):
            shares = [random.Random(step * 8 + turn * 100 + r).uniform(0.4, 1.6) for r in EVERY]
            parts = [round(2e6 * s / sum(shares)) for s in shares]
            for work in (400.0, 400.0 * shares[rank]):
                extra = {"In split size": str(parts), "Out split size": str([parts[rank]] * 8)}
                ops += [compute(work), Op("collective", 90.0, WORLD, "all_to_allv", 1 << 21, extra=extra)]
        return ops

    (skew,) = findings(job(program).write(tmp_path))["collective-skew"]
    assert skew.severity == Severity.INFO
    assert "tokens of unequal number" in skew.explanation


@pytest.mark.parametrize(("beside_us", "alone"), [(450.0, True), (450.0, False), (2400.0, False)])
def test_compute_beside_a_transfer_takes_bandwidth(tmp_path: Path, beside_us: float, alone: bool) -> None:
    """32 MiB on eight H100: 130 GB/s beside compute is usual, 24 GB/s is not; alone it takes 200 us (293 GB/s)."""

    def program(_rank: int, _step: int, _rng: random.Random) -> list[Op]:
        ops = [reduce(WORLD, beside_us, blocking=False), compute(3000.0), Op("join")]
        return [*ops, compute(50.0), *([reduce(WORLD, 200.0), compute(50.0)] if alone else [])]

    found = findings(job(program).write(tmp_path, host=lambda _r: "node0"))
    assert ("busbw-below-expected" in found) == (beside_us > 1000)


def test_the_node_that_all_slow_groups_share(tmp_path: Path) -> None:
    """Four nodes of four; groups of two nodes each, of both places: those with node 1 are slow."""
    pairs = [Group(f"d{i}", (i, 8 + i)) for i in range(8)]
    wide = [Group("e0", tuple(range(8))), Group("e1", tuple(range(8, 16)))]

    def program(rank: int, _step: int, rng: random.Random) -> list[Op]:
        pair, group = pairs[rank % 8], wide[rank // 8]
        slow = [6.0 if any(r // 4 == 1 for r in g.ranks) else 1.0 for g in (pair, group)]
        return [
            compute(rng.gauss(900, 9)),
            reduce(pair, 300.0 * slow[0]),
            compute(100.0),
            reduce(group, 500.0 * slow[1], name="_allgather_base"),
        ]

    (outlier,) = findings(job(program, 16).write(tmp_path, host=lambda r: f"node{r // 4}"))["busbw-outlier"]
    assert outlier.ranks == (4, 5, 6, 7)
    assert outlier.hosts == ("node1",)
    assert "node1" in outlier.title


@pytest.mark.parametrize("offset_us", [-400.0, 400.0])
def test_the_clock_of_one_gpu_of_a_host_is_off(tmp_path: Path, offset_us: float) -> None:
    clock = {4: offset_us}
    paths = job(four()).write(tmp_path, clock_us=lambda r: clock.get(r, 0.0), host=lambda _r: "node0")
    assert not {"straggler-rank", "busbw-outlier", "collective-skew"} & set(findings(paths))


def test_a_slow_host_of_which_some_ranks_miss_significance(tmp_path: Path) -> None:
    """Three of four ranks are 12% slower in all steps, the fourth 9%, and noisier."""
    slow = {4: 1.12, 5: 1.12, 6: 1.12, 7: 1.09}

    def program(rank: int, _step: int, rng: random.Random) -> list[Op]:
        noise = rng.gauss(0, 160 if rank == 7 else 8)
        return [compute(1000 * slow.get(rank, 1.0) + noise), reduce(WORLD, 100.0)] * 4

    found = findings(job(program).write(tmp_path, host=lambda r: f"node{r // 4}"))
    assert [f.ranks for f in found["straggler-rank"]] == [(4, 5, 6, 7)]


@pytest.mark.parametrize(("longer", "named"), [(1.06, False), (1.25, True)])
def test_stages_may_take_a_little_longer(tmp_path: Path, longer: float, named: bool) -> None:
    """Four stages, two copies: the last one has the head of the model."""
    groups = [Group(f"d{s}", (2 * s, 2 * s + 1)) for s in range(4)]
    pipes = [Group(f"p{c}", tuple(range(c, 8, 2))) for c in range(2)]

    def program(rank: int, _step: int, rng: random.Random) -> list[Op]:
        stage, pipe = rank // 2, pipes[rank % 2]
        ops = []
        for _ in range(6):
            if stage:
                ops.append(Op("recv", 40.0, pipe, "recv", 1 << 20, rank - 2))
            ops.append(compute(rng.gauss(800, 8) * (longer if stage == 3 else 1)))
            if stage < 3:
                ops.append(Op("send", 40.0, pipe, "send", 1 << 20, rank + 2, blocking=False))
        return [*ops, Op("join"), reduce(groups[stage], 200.0), compute(50.0)]

    found = findings(job(program).write(tmp_path)).get("straggler-rank", [])
    assert [f.ranks for f in found] == ([(6, 7)] if named else [])
