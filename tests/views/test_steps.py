"""The mean step of each rank: means by hand."""

from __future__ import annotations

import polars as pl

from nccl_insight.tables.run import build_run
from nccl_insight.views.steps import spent, steps

STEPS = pl.DataFrame(
    {
        "rank": [1, 0, 1], "device": [1, 0, 1], "step": [1, 1, 2], "duration_ns": [30, 20, 50],
        "compute_ns": [10, 20, 20], "comm_ns": [4, None, 8],
    }
)  # fmt: skip


def test_each_rank_has_its_mean_step() -> None:
    found = steps(build_run({"steps": STEPS}))
    assert found is not None
    assert (found.by_device, found.total) == (False, 2)
    assert [(m.rank, m.steps, m.means["duration_ns"], m.means["comm_ns"]) for m in found.ranks] == [
        (0, 1, 20.0, None), (1, 2, 40.0, 6.0),
    ]  # fmt: skip
    assert found.means["duration_ns"] == 30.0  # of the means of ranks, not of all steps


def test_gpus_stand_for_ranks_that_are_not_known() -> None:
    found = steps(build_run({"steps": STEPS.with_columns(rank=pl.lit(None, pl.Int32))}))
    assert found is not None
    assert found.by_device
    assert [m.rank for m in found.ranks] == [0, 1]


def test_a_trace_of_the_cpu_alone_has_nothing_to_take_apart() -> None:
    bare = STEPS.with_columns(compute_ns=pl.lit(None, pl.Int64), comm_ns=pl.lit(None, pl.Int64))
    assert steps(build_run({"steps": bare})) is None
    assert spent(build_run({"steps": bare})) is None


def test_time_outside_of_steps_is_summed_over_traces() -> None:
    info = pl.DataFrame({"step_source": ["annotation", None, "annotation"], "outside_steps_ns": [5, 7, 0]})
    found = spent(build_run({"steps": STEPS, "trace_info": info}))
    assert found is not None
    assert (found.sources, found.outside_ns, found.traces_outside, found.stepped) == (("annotation",), 12, 2, True)
