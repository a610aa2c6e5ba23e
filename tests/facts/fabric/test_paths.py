"""Distances between GPUs."""

from __future__ import annotations

import polars as pl

from nccl_insight.facts.fabric import paths
from nccl_insight.tables.run import build_run


def test_nvlink_bandwidth_counts_a_repeated_link_once() -> None:
    links = pl.DataFrame(
        {
            "host": ["a"] * 3, "src": ["GPU/0-1b000"] * 3, "dst": ["NVS/0", "NVS/0", "GPU/0-2b000"],
            "link": ["NVL"] * 3, "bw_gbps": [240.0, 240.0, 20.0], "input_id": [0] * 3, "line": [1, 5, 2],
        }
    )  # fmt: skip
    run = build_run({"topology_links": links})
    assert paths.nvlink_per_gpu(run).select("bw_gbps", "links").rows() == [(260.0, 2)]
    assert paths.has_nvlink(run)
    assert not paths.nvlink_mesh(run)
