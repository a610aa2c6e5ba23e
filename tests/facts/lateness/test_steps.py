"""Steps that become slower: the moment, the rank, and what must stay silent."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import polars as pl
import pytest

from nccl_insight.facts.lateness.steps import larger_by_chance, regression
from nccl_insight.share import api
from nccl_insight.tables.run import Run, build_run

MS = 1_000_000
RANKS = 8
STEPS = 40


def run_of(compute_ms: Callable[[int, int], float], wire_ms: Callable[[int], float] = lambda step: 20.0) -> Run:
    """A job in step: every rank waits for the slowest one, then the transfer takes ``wire_ms``; 2 % jitter."""
    rng = random.Random(7)
    rows = []
    for step in range(STEPS):
        own = [compute_ms(rank, step) * rng.uniform(0.98, 1.02) for rank in range(RANKS)]
        whole = max(own) + wire_ms(step) * rng.uniform(0.98, 1.02)
        for rank, compute in enumerate(own):
            waiting = whole - compute
            times = [round(x * MS) for x in (whole, compute, waiting, waiting)]
            rows.append((rank, step, step * 200 * MS, *times, 0, 0, 0))
    names = ["rank", "step", "start_ns", "duration_ns", "compute_ns", "comm_ns", "exposed_comm_ns"]
    names += ["memcpy_ns", "idle_ns", "input_id"]
    return build_run({"steps": pl.DataFrame(rows, schema=names, orient="row").with_columns(overlap_pct=0.0)})


def test_rank_that_slows_down_is_named_with_the_moment() -> None:
    found = regression(run_of(lambda rank, step: 130.0 if rank == 5 and step >= 23 else 80.0), 1.15)
    assert found is not None
    assert (found.step, found.where, found.ranks) == (23, "ranks", (5,))
    assert found.ratio == pytest.approx(1.5, rel=0.05)


def test_half_of_the_ranks_that_slow_down_are_named() -> None:
    """The other half did not change: growth is measured against each rank's own past."""
    found = regression(run_of(lambda rank, step: 130.0 if rank >= 4 and step >= 23 else 80.0), 1.15)
    assert found is not None
    assert (found.step, found.where, found.ranks) == (23, "ranks", (4, 5, 6, 7))


def test_link_that_slows_down_is_communication() -> None:
    found = regression(run_of(lambda rank, step: 80.0, lambda step: 70.0 if step >= 12 else 20.0), 1.15)
    assert found is not None
    assert (found.step, found.where, found.ranks) == (12, "communication", ())


def test_all_ranks_compute_longer() -> None:
    found = regression(run_of(lambda rank, step: 120.0 if step >= 30 else 80.0), 1.15)
    assert found is not None
    assert (found.step, found.where, found.ranks) == (30, "compute", ())


@pytest.mark.parametrize(
    "compute_ms",
    [
        pytest.param(lambda rank, step: 80.0, id="steady"),
        pytest.param(lambda rank, step: 300.0 if step < 3 else 80.0, id="warm-up"),
        pytest.param(lambda rank, step: 400.0 if step == 25 else 80.0, id="one slow step"),
        pytest.param(lambda rank, step: 160.0 if step % 5 == 4 else 80.0, id="every fifth step"),
        pytest.param(lambda rank, step: 60.0 if step >= 20 else 80.0, id="faster"),
        pytest.param(lambda rank, step: 84.0 if step >= 20 else 80.0, id="a few percent"),
        pytest.param(lambda rank, step: 160.0 if step >= 37 else 80.0, id="the last three steps only"),
        pytest.param(lambda rank, step: 80.0 * (1.6 if rank == 3 else 1), id="a rank that always was slow"),
    ],
)
def test_silent(compute_ms: Callable[[int, int], float]) -> None:
    assert regression(run_of(compute_ms), 1.15) is None


def test_finding() -> None:
    analysis = api.analyze(run_of(lambda rank, step: 130.0 if rank == 5 and step >= 23 else 80.0))
    found = {f.name: f for f in analysis.findings}["step-regression"]
    assert found.ranks == (5,)
    assert found.title.startswith("Steps are slower from step 23 on: 101.")
    assert found.title.endswith("the computing of rank 5 grew")


def test_few_steps_are_not_judged() -> None:
    run = run_of(lambda rank, step: 130.0 if step >= 5 else 80.0)
    few = build_run({"steps": run.table("steps").filter(pl.col("step") < 9)})
    assert regression(few, 1.15) is None


def test_twenty_steps_are_enough_where_both_parts_are_apart() -> None:
    """All eleven after are longer than all nine before: that is 1 of 167,960 orders."""
    run = run_of(lambda rank, step: 110.0 if step >= 9 else 80.0)
    found = regression(build_run({"steps": run.table("steps").filter(pl.col("step") < 20)}), 1.15)
    assert found is not None
    assert (found.step, found.before, found.after) == (9, 9, 11)
    assert larger_by_chance(range(9), range(10, 21)) == pytest.approx(1 / math.comb(20, 9))
    assert larger_by_chance([1, 4, 6, 2], [3, 7, 5]) == pytest.approx(7 / 35)


def test_a_jump_far_beyond_the_spread_needs_five_steps_on_each_side() -> None:
    jump = run_of(lambda rank, step: 110.0 if step >= 8 else 80.0).table("steps")
    found = regression(build_run({"steps": jump.filter(pl.col("step") < 16)}), 1.15)
    assert found is not None
    assert (found.step, found.where) == (8, "compute")
    rng = random.Random(2)
    uneven = {step: rng.uniform(60.0, 120.0) + (40.0 if step >= 8 else 0.0) for step in range(STEPS)}
    steps = run_of(lambda rank, step: uneven[step]).table("steps").filter(pl.col("step") < 16)
    assert regression(build_run({"steps": steps}), 1.15) is None


def test_long_recordings_are_cut_at_the_same_step() -> None:
    rng = random.Random(3)
    times = [(150 if step >= 70_001 else 100) * MS * rng.uniform(0.97, 1.03) for step in range(100_000)]
    columns = {"rank": [0] * len(times), "step": range(len(times)), "duration_ns": [round(t) for t in times]}
    run = build_run({"steps": pl.DataFrame(columns).with_columns(compute_ns="duration_ns", input_id=pl.lit(0))})
    found = regression(run, 1.15)
    assert found is not None
    assert found.step == 70_001
