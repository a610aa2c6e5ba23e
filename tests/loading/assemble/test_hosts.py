"""Host names that a torn line spoiled."""

from __future__ import annotations

import polars as pl

from nccl_insight.loading.assemble.hosts import spoiled


def test_a_host_is_mended_to_the_longest_frequent_end_of_its_name() -> None:
    processes = pl.DataFrame(
        {
            "input_id": [0, 0, 0, 0, 0, 1],
            "_host": ["Connected gpu1", "gpu1", "u1", "gpu2", "xxgpu2", "yygpu1"],
            "_pid": [7, 7, 7, 7, 7, 7],
            "_lines": [2, 100, 90, 10, 9, 1],
        },
        schema={"input_id": pl.UInt16, "_host": pl.String, "_pid": pl.Int64, "_lines": pl.UInt64},
    )
    # gpu1 itself is frequent, xxgpu2 is no rarer than gpu2, and the last stands in another input.
    assert spoiled(processes).rows() == [(0, "Connected gpu1", 7, "gpu1")]
