"""Communication that the design puts on the critical path is information; what could be hidden is a warning."""

from __future__ import annotations

from pathlib import Path

import pytest

import nccl_insight
from nccl_insight.base.model import Finding
from nccl_insight.facts.lateness.critical import critical_path
from tests.job_maker import Group, Op, Simulation

RANKS = tuple(range(8))
ALL = Group("0", RANKS)
ABOUT = ("exposed-communication", "no-overlap", "comm-dominates-step")


def job(program: list[Op], steps: int = 5) -> Simulation:
    made = Simulation({r: [(s, op) for s in range(steps) for op in program] for r in RANKS}, len(RANKS))
    made.run()
    return made


def together(name: str, took_us: float, elements: int = 1 << 22) -> Op:
    return Op("collective", took_us, ALL, name, elements)


def judged(program: list[Op], folder: Path) -> dict[str, Finding]:
    paths = job(program).write(folder)
    return {f.name: f for f in nccl_insight.analyze(nccl_insight.load(paths)).findings if f.name in ABOUT}


LAYER = [Op("compute", 110.0), together("allreduce", 60.0)]
SEQUENCE = [
    Op("compute", 60.0),
    together("_allgather_base", 30.0),
    Op("compute", 60.0),
    together("_reduce_scatter_base", 30.0),
]
TOKENS = [Op("compute", 110.0), together("all_to_all", 60.0)]


@pytest.mark.parametrize("layer", [LAYER, SEQUENCE, TOKENS], ids=["tensor", "sequence", "experts"])
def test_layers_that_need_the_result_are_information(tmp_path: Path, layer: list[Op]) -> None:
    found = judged(layer * 16, tmp_path)
    assert {f.severity.value for f in found.values()} == {"info"}
    assert "the next layer needs their result" in found["exposed-communication"].explanation


def test_the_time_is_that_of_the_collectives(tmp_path: Path) -> None:
    run = nccl_insight.load(job(LAYER * 16).write(tmp_path))
    assert critical_path(run)["inline_ns"].to_list() == [5 * 16 * 60_000] * 8


@pytest.mark.parametrize(
    "program",
    [
        [Op("compute", 2000.0), *[together("allreduce", 100.0)] * 10],
        [*[Op("compute", 250.0), together("_allgather_base", 120.0)] * 10],
        [*[Op("compute", 100.0), together("allreduce", 160.0)] * 16],
    ],
    ids=["gradients at the end", "shards without prefetch", "more than half of the step"],
)
def test_what_could_be_hidden_or_is_too_much_is_a_warning(tmp_path: Path, program: list[Op]) -> None:
    found = judged(program, tmp_path)
    assert found["exposed-communication"].severity.value == "warning"
    assert "the next layer needs" not in found["exposed-communication"].explanation
