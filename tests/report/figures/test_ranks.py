"""Ranks compared: start-up times by phase, outliers, NICs by GPU."""

from __future__ import annotations

from nccl_insight.report.figures.ranks import comparison, init_timing
from nccl_insight.views.ranks import PHASES, Init, InitTimes, Metric
from tests import render_samples as samples

ANALYSIS, _ = samples.healthy()


def init(rank: int, total: float, **phases: float) -> Init:
    return Init(rank, total, {**dict.fromkeys(PHASES), **phases})


def test_the_slowest_rank_and_its_longest_phase_are_told() -> None:
    phase = PHASES[0]
    view = InitTimes(2, 1.5, frozenset({phase}), (init(7, 4.0, **{phase: 3.25}), init(0, 1.0)))
    figure = init_timing(ANALYSIS, view)
    assert figure.summary.startswith(
        "Half of the ranks were ready within 1.50 s; the slowest, rank 7, took 4.00 s, most of it in "
    )
    assert figure.summary.endswith("(3.25 s).")
    assert [row[:3] for row in figure.table.rows] == [("7", "4.000", "3.250"), ("0", "1.000", "")]
    assert figure.plot is not None
    assert [bar["x"] for bar in figure.plot["data"]] == [[3.25, 0.0]]


def test_ranks_that_stand_out_are_named_with_their_hosts() -> None:
    metric = Metric("step time (ms)", {0: 10.0, 1: 10.0, 2: 99.0}, 10.0, (2,), ("gpu03",))
    figure = comparison(ANALYSIS, [metric])
    assert "Ranks that stand out: step time (ms): rank 2 (on gpu03)" in figure.summary
    assert figure.table.rows == (("step time (ms)", "3", "10", "10", "99", "2"),)
    assert figure.plot is not None
    assert [trace["name"] for trace in figure.plot["data"]] == ["ranks", "outliers", "median"]
    even = comparison(ANALYSIS, [Metric("step time (ms)", {0: 10.0, 1: 10.0}, 10.0, (), ())])
    assert even.summary.startswith("By these measures no rank is an outlier.")


def test_only_the_first_figure_is_shown_at_first() -> None:
    one = Metric("a", {0: 1.0, 1: 1.0}, 1.0, (), ())
    figure = comparison(ANALYSIS, [one, Metric("b", {0: 1.0, 1: 1.0}, 1.0, (), ())])
    assert figure.plot is not None
    assert [trace["visible"] for trace in figure.plot["data"]] == [True, True, False, False]
    assert (figure.masks, figure.choices) == ((0, 0, 1, 1), ("a", "b"))
