"""Rows of nccl-tests tables among lines of text (old and new layouts, also between lines of an NCCL log)."""

from __future__ import annotations

import polars as pl
import pytest

from nccl_insight.readers.embedded.nccl_tests import op_of_name, scan_lines, scan_runs


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("./build/all_reduce_perf", "AllReduce"), ("reduce_perf_mpi", "Reduce"), ("alltoallv_perf", "AllToAllv"),
        ("nccl_alltoall.log", "AllToAll"), ("sendrecv_perf", "SendRecv"), ("notes.txt", None),
    ],
)  # fmt: skip
def test_collective_from_a_program_name(name: str, op: str | None) -> None:
    assert op_of_name(name) == op


TABLE = """# nThread 1 nGpus 1 minBytes 8 maxBytes 128 step: 2(factor) warmup iters: 5 iters: 20
#  Rank  0 Group  0 Pid 7 on gpu1 device  0 [0x1b] NVIDIA L4
#  Rank  1 Group  0 Pid 8 on gpu2 device  0 [0x1b] NVIDIA L4
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
      1048576        262144     float     sum      -1    100.0   10.00   10.00      0    125.0    8.00    8.00      3
loss 2.5
# Out of bounds values : 3 FAILED
# Avg bus bandwidth    : 9.0"""


def lines_of(text: str) -> pl.DataFrame:
    return (
        pl.DataFrame({"text": text.splitlines()})
        .with_row_index("line", 1)
        .select(pl.col("line").cast(pl.UInt64), "text")
    )


def test_a_row_of_a_table_is_two_measurements() -> None:
    found = scan_lines(lines_of(TABLE), "out/all_reduce_perf.log")
    columns = ["line", "op", "size_bytes", "dtype", "red_op", "root", "in_place", "time_us", "busbw_gbps", "wrong"]
    assert found.select(columns).rows() == [
        (5, "AllReduce", 1048576, "float", "sum", -1, False, 100.0, 10.0, 0),
        (5, "AllReduce", 1048576, "float", "sum", -1, True, 125.0, 8.0, 3),
    ]
    assert found.select("nranks", "n_hosts", "gpu", "n_gpus").row(0) == (2, 2, "NVIDIA L4", 2)


def test_a_table_that_is_cut_is_a_run_without_an_end() -> None:
    whole, cut = (
        scan_runs(lines_of(TABLE)).row(0, named=True),
        scan_runs(lines_of(TABLE[: TABLE.index("1048576")])).row(0, named=True),
    )
    assert (whole["listed"], whole["hosts"], whole["rows"], whole["ended"]) == (2, ["gpu1", "gpu2"], 1, True)
    assert whole["out_of_bounds"] == 3
    assert (cut["rows"], cut["ended"]) == (0, False)
    assert scan_runs(lines_of("loss 2.5")).is_empty()
    assert scan_lines(lines_of("loss 2.5")).is_empty()
