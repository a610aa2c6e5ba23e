"""Measured bandwidths are told with the verdict."""

from __future__ import annotations

import polars as pl

from nccl_insight.engine.measured import measured_sentences
from nccl_insight.tables.run import build_run
from tests.predictions import bench


def test_one_sentence_an_operation() -> None:
    rows = pl.DataFrame(
        {
            "op": ["AllReduce", "AllReduce", "Broadcast"],
            "nranks": [4, 4, 4],
            "size_bytes": [8, 8 * 1024 * 1024, 1024],
            "busbw_gbps": [0.0, 0.437, 125.2],
            "wrong": [0, 0, 3],
        }
    )
    assert measured_sentences(build_run({"benchmarks": rows})) == [
        "Measured AllReduce on 4 ranks, 8 B to 8.0 MiB: busbw 0.44 GB/s at the largest size",
        "Measured Broadcast on 4 ranks, 1.0 KiB to 1.0 KiB: busbw 125 GB/s at the largest size; 3 wrong values",
    ]


def test_nothing_measured_nothing_said() -> None:
    assert measured_sentences(build_run({})) == []


def test_measured_sentences_say_how_much_of_the_expected() -> None:
    assert "of the expected" in measured_sentences(bench("NVIDIA A100-SXM4-40GB", 231))[0]
    assert "below" in measured_sentences(bench("NVIDIA A100-SXM4-40GB", 20))[0]
    assert "expected" not in measured_sentences(bench("Mystery 9000", 231))[0]
