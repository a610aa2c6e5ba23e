"""Ranks compared."""

from __future__ import annotations

import json

import polars as pl

from nccl_insight.share.api import analyze
from nccl_insight.tables import schema
from nccl_insight.tables.run import build_run
from nccl_insight.views.ranks import metrics


def test_ranks_that_figures_mark_are_in_the_json() -> None:
    seconds = [1.0, 1.01, 1.0, 0.99, 1.0, 3.5, 1.0, 1.0]
    rows = [{"input_id": 0, "line": r + 1, "comm_id": "0xab", "rank": r, "total_s": s} for r, s in enumerate(seconds)]
    run = build_run({"init_timings": schema.conform("init_timings", pl.DataFrame(rows))})
    document = json.loads(analyze(run).to_json())
    assert document["ranks_apart"] == [
        {"figure": "initialization, s", "median": 1.0, "count": 1, "ranks": [{"rank": 5, "value": 3.5}]}
    ]
    assert [(m.title, m.outliers) for m in metrics(run) or ()] == [("initialization, s", (5,))]
