"""Jobs with several parallel dimensions: the rank where a delay begins is named, and nobody in healthy ones."""

from __future__ import annotations

from pathlib import Path

import pytest

import nccl_insight
from nccl_insight.model import Finding
from tests.job_maker import Layout, Simulation, training

LATE = ("straggler-rank", "late-once", "collective-skew")


def said(simulation: Simulation, folder: Path, far: bool = False) -> dict[str, list[Finding]]:
    paths = simulation.write(folder, (lambda r: 1.7e6 * r) if far else (lambda _r: 0.0))
    found: dict[str, list[Finding]] = {}
    for finding in nccl_insight.analyze(nccl_insight.load(paths)).findings:
        found.setdefault(finding.name, []).append(finding)
    return found


def late(found: dict[str, list[Finding]]) -> list[tuple[str, tuple[int, ...]]]:
    return [(name, f.ranks) for name in LATE for f in found.get(name, [])]


@pytest.mark.parametrize("far", [False, True])
def test_tensor_data_and_pipeline_with_one_slow_rank(tmp_path: Path, far: bool) -> None:
    job = training(Layout(tp=2, dp=2, pp=2), slow=lambda r, _s: 1.2 if r == 5 else 1.0)
    found = said(job, tmp_path, far)
    assert late(found) == [("straggler-rank", (5,))]


@pytest.mark.parametrize(
    ("layout", "overlap", "experts"),
    [(Layout(2, 2, 2), False, False), (Layout(2, 4, 2), True, False), (Layout(2, 4, 1), False, True)],
)
def test_healthy_jobs_are_silent(tmp_path: Path, layout: Layout, overlap: bool, experts: bool) -> None:
    found = said(training(layout, overlap=overlap, experts=experts), tmp_path)
    assert late(found) == []
    assert "busbw-outlier" not in found


def test_gradients_reduced_under_compute(tmp_path: Path) -> None:
    """Rank 7 waits for rank 6 in its tensor group and is late in its data group for that reason alone."""
    job = training(Layout(tp=2, dp=4, pp=1), slow=lambda r, _s: 1.15 if r == 6 else 1.0, overlap=True)
    assert late(said(job, tmp_path)) == [("straggler-rank", (6,))]


def test_experts_tensor_and_pipeline(tmp_path: Path) -> None:
    job = training(Layout(tp=2, dp=2, pp=2), slow=lambda r, _s: 1.2 if r == 3 else 1.0, experts=True)
    assert late(said(job, tmp_path)) == [("straggler-rank", (3,))]


def test_sixteen_ranks_one_late_in_one_step(tmp_path: Path) -> None:
    job = training(Layout(tp=2, dp=2, pp=4), slow=lambda r, s: 3.0 if (r, s) == (11, 3) else 1.0)
    found = said(job, tmp_path)
    assert late(found) == [("late-once", (11,))]
    assert "in step 3" in found["late-once"][0].title


def test_a_slow_link_between_two_stages_blames_no_rank(tmp_path: Path) -> None:
    job = training(Layout(tp=2, dp=2, pp=4), link=lambda a, b: 8.0 if (a, b) == (5, 9) else 1.0)
    found = said(job, tmp_path)
    assert [f.ranks for f in found["busbw-outlier"]] == [(5, 9)]
    assert late(found) == []


@pytest.mark.parametrize(("factor", "expected"), [(1.3, [("straggler-rank", (2,))]), (1.0, [])])
def test_a_pipeline_without_any_collective(
    tmp_path: Path, factor: float, expected: list[tuple[str, tuple[int, ...]]]
) -> None:
    slow = lambda r, _s: factor if r == 2 else 1.0  # noqa: E731
    job = training(Layout(tp=1, dp=1, pp=4), slow=slow, micro=8, final=False)
    assert late(said(job, tmp_path)) == expected


def test_lateness_that_moves_is_no_single_rank(tmp_path: Path) -> None:
    job = training(Layout(tp=2, dp=4, pp=1), steps=12, slow=lambda r, s: 1.5 if r == (3 * s) % 8 else 1.0)
    assert [name for name, _ in late(said(job, tmp_path))] == ["collective-skew"]
