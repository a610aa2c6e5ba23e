"""Figures of traces and benchmarks."""

from __future__ import annotations

import polars as pl

import nccl_insight
from nccl_insight.report.figures.traces import bandwidth as bandwidth_figure
from nccl_insight.tables.run import build_run
from nccl_insight.views.traces import bandwidth as bandwidth_view


def test_the_report_draws_measurements_in_the_band_of_what_is_expected() -> None:
    rows = pl.DataFrame(
        {
            "input_id": [0] * 3, "op": ["AllReduce"] * 3, "size_bytes": [1 << 20, 1 << 25, 1 << 30],
            "in_place": [False] * 3, "time_us": [50.0, 300.0, 4000.0], "busbw_gbps": [36.7, 195.7, 469.8],
            "nranks": [8] * 3, "n_hosts": [1] * 3, "gpu": ["NVIDIA H100 80GB HBM3"] * 3, "line": [7, 8, 9],
            "wrong": [0] * 3,
        }
    )  # fmt: skip
    run = build_run({"benchmarks": rows})
    view = bandwidth_view(run)
    assert view is not None
    figure = bandwidth_figure(nccl_insight.analyze(run), view)
    assert figure is not None
    assert figure.plot is not None
    curves = {trace["name"]: trace for trace in figure.plot["data"]}
    high, middle, low = (curves[f"AllReduce {word}expected"]["y"] for word in ("highest ", "", "lowest "))
    assert all(0 < under < at < over for under, at, over in zip(low, middle, high, strict=True))
    assert curves["AllReduce lowest expected"]["fill"] == "tonexty"
    assert low[2] < 469.8 < high[2]
    assert "hardware table" in figure.summary
