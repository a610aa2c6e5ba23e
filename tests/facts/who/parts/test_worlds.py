"""What belongs together: the pass over all worlds gives what comparing each with each gives."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from nccl_insight.facts.who.parts.rows import END, Span
from nccl_insight.facts.who.parts.worlds import World, alike, tied


@dataclass
class _Job:
    """Worlds put together one by one, each compared with all before."""

    worlds: list[World] = field(default_factory=list)

    def values(self, name: str) -> set[object]:
        return {v for w in self.worlds for v in getattr(w, name)}

    @property
    def inputs(self) -> list[int]:
        return sorted(s.input_id for w in self.worlds for s in w.spans)

    @property
    def size(self) -> int:
        return max(w.size for w in self.worlds)


def _tied_by_definition(worlds: Sequence[World]) -> list[list[int]]:
    jobs: list[_Job] = []
    for world in worlds:
        shared = [job for job in jobs if job.values("comms") & world.comms]
        if not shared:
            jobs.append(_Job([world]))
            continue
        for other in shared[1:]:
            shared[0].worlds += other.worlds
            jobs.remove(other)
        shared[0].worlds.append(world)
    return [job.inputs for job in jobs]


def _differ(job: _Job, world: World, releases: Mapping[str, str]) -> bool:
    if not (job.values("comms") and world.comms):
        return False
    mine = {releases[str(c)] for c in job.values("comms") if str(c) in releases}
    theirs = {releases[c] for c in world.comms if c in releases}
    if job.size != world.size or job.values("gpus") & world.gpus:
        return True
    if not mine or not theirs or mine & theirs:
        return False
    here = {r for w in job.worlds for r, n in w.ranks if n == world.size}
    there = {r for r, n in world.ranks if n == world.size}
    return bool(here & there) or len(here) + len(there) > world.size


def _alike_by_definition(worlds: Sequence[World], releases: Mapping[str, str]) -> list[list[int]]:
    jobs: list[_Job] = []
    for world in worlds:
        apart = [set(job.inputs) & {s.input_id for s in world.spans} for job in jobs]
        fits = [j for j, same in zip(jobs, apart, strict=True) if not same and not _differ(j, world, releases)]
        if fits:
            fits[0].worlds.append(world)
        else:
            jobs.append(_Job([world]))
    return [job.inputs for job in jobs]


def _drawn(draw: random.Random) -> list[World]:
    found = []
    for number in range(draw.randrange(1, 12)):
        size = draw.choice([2, 2, 4])
        comms = frozenset(f"c{draw.randrange(14)}" for _ in range(draw.choice([0, 1, 1, 2])))
        gpus = frozenset((f"h{draw.randrange(6)}", f"{draw.randrange(4)}") for _ in range(draw.randrange(2)))
        ranks = frozenset((draw.randrange(size), size) for _ in range(draw.randrange(3)))
        found.append(World((Span(draw.choice([number, number, 0]), 0, END),), comms, gpus, ranks, size))
    return found


@pytest.mark.parametrize("seed", range(300))
def test_worlds_that_share_a_communicator_are_one(seed: int) -> None:
    worlds = _drawn(random.Random(seed))
    found = tied(worlds)
    assert [sorted(s.input_id for s in w.spans) for w in found] == _tied_by_definition(worlds)
    assert {c for w in found for c in w.comms} == {c for w in worlds for c in w.comms}
    assert sum(len(w.comms) for w in found) == len({c for w in worlds for c in w.comms})


@pytest.mark.parametrize("seed", range(300))
def test_worlds_that_nothing_tells_apart_are_one(seed: int) -> None:
    draw = random.Random(seed)
    worlds = tied(_drawn(draw))
    releases = {f"c{n}": draw.choice(["2.19.3", "2.21.5"]) for n in range(14) if draw.random() < 0.8}
    found = alike(worlds, releases)
    assert [sorted(s.input_id for s in w.spans) for w in found] == _alike_by_definition(worlds, releases)
