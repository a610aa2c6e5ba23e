"""Pipelines: their bubbles are the schedule, not communication to warn of, unless a rank is late."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

import nccl_insight
from nccl_insight.base.model import Analysis
from nccl_insight.facts.lateness.pipeline import schedule_waits
from tests.job_maker import Layout, training
from tests.job_shapes import Plan, alternating


def _judged(paths: list[Path]) -> Analysis:
    return nccl_insight.analyze(nccl_insight.load(paths))


@pytest.mark.parametrize("layout", [Layout(1, 1, 4), Layout(1, 2, 4), Layout(1, 1, 8)], ids=str)
def test_a_balanced_pipeline_warns_of_nothing(tmp_path: Path, layout: Layout) -> None:
    for name, made in (("a", alternating(layout, Plan())), ("b", training(layout, micro=4))):
        analysis = _judged(made.write(tmp_path / name))
        loud = [f for f in analysis.findings if f.severity.value in ("warning", "error")]
        assert [(f.name, f.title) for f in loud] == []
        (bubble,) = [f for f in analysis.findings if f.name == "exposed-communication"]
        assert "Waiting for other pipeline stages" in bubble.title
        assert "micro-batches" in bubble.next_step
        assert "late rank" not in f"{bubble.next_step} {bubble.explanation}".replace("No rank is late", "")


def test_the_bubble_is_that_of_the_schedule(tmp_path: Path) -> None:
    """Four equal stages and 4 micro-batches, forward and backward: 3 of 7 parts of the step are the bubble."""
    made = training(Layout(1, 1, 4), micro=4, final=False)
    run = nccl_insight.load(made.write(tmp_path))
    waits = schedule_waits(run).sort("rank")
    steps = run.table("steps").group_by("rank").sum().sort("rank")
    shares = [w / d for w, d in zip(waits["stage_wait_ns"], steps["duration_ns"], strict=True)]
    assert sum(shares) / len(shares) == pytest.approx(3 / 7, abs=0.1)


def test_a_late_rank_is_still_what_others_wait_for(tmp_path: Path) -> None:
    slow = alternating(Layout(1, 2, 4), Plan(slow=lambda rank, _: 1.4 if rank == 4 else 1.0))
    analysis = _judged(slow.write(tmp_path))
    (late,) = [f for f in analysis.findings if f.name == "straggler-rank"]
    assert list(late.ranks) == [4]
    assert not [f for f in analysis.findings if f.title.startswith("Waiting for other pipeline stages")]


@pytest.mark.parametrize(("seed", "slow"), [(2, 1.0), (2, 1.25), (3, 1.0), (3, 1.25)])
def test_micro_batches_of_unequal_length_are_no_fault_of_the_ranks_that_handle_them(
    tmp_path: Path, seed: int, slow: float
) -> None:
    draw = random.Random(seed)
    lengths = [[math.exp(draw.gauss(0, 0.15)) for _ in range(50)] for _ in range(2)]
    plan = Plan(slow=lambda rank, step: lengths[rank % 2][step] * (slow if rank == 5 else 1.0))
    analysis = _judged(alternating(Layout(1, 2, 4), plan).write(tmp_path))
    late = [list(f.ranks) for f in analysis.findings if f.name == "straggler-rank"]
    assert late == ([[5]] if slow > 1 else [])


def test_a_stage_with_more_work_makes_the_schedule_longer(tmp_path: Path) -> None:
    """The others stand in receives for longer, which no faster network ends."""
    uneven = alternating(Layout(1, 2, 4), Plan(slow=lambda rank, _: 1.4 if rank in (4, 5) else 1.0))
    analysis = _judged(uneven.write(tmp_path))
    (stage,) = [f for f in analysis.findings if f.name == "straggler-rank"]
    assert list(stage.ranks) == [4, 5]
    assert "compute more than the other stages" in stage.title
    assert [f for f in analysis.findings if f.title.startswith("Waiting for other pipeline stages")]
    assert not [f for f in analysis.findings if f.name == "comm-dominates-step" and f.severity.value != "info"]
