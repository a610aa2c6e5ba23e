"""Bandwidth formulas against figures that nccl-tests printed and against its documentation."""

from __future__ import annotations

import polars as pl
import pytest

from nccl_insight.base import bandwidth as bw


def test_row_printed_by_nccl_tests() -> None:
    size, time_ns = 8 * 1024**3, 63_896_000
    assert bw.algbw_gbps(size, time_ns) == pytest.approx(134.44, abs=0.005)
    # the printed time is rounded to whole us, so the last digit of busbw may differ by one
    assert bw.busbw_gbps("AllReduce", size, time_ns, 8) == pytest.approx(235.26, abs=0.006)


@pytest.mark.parametrize(
    ("op", "nranks", "factor"),
    [
        ("AllReduce", 8, 1.75),
        ("AllReduce", 2, 1.0),
        ("AllGather", 4, 0.75),
        ("ReduceScatter", 4, 0.75),
        ("AllToAll", 2, 0.5),
        ("Broadcast", 16, 1.0),
        ("Send", None, 1.0),
        ("AllReduce", 1, None),
        ("Broadcast", 1, None),
        ("AllReduce", None, None),
        ("Barrier", 8, None),
    ],
)
def test_factor(op: str, nranks: int | None, factor: float | None) -> None:
    assert bw.busbw_factor(op, nranks) == factor
    frame = pl.DataFrame({"op": [op], "n": [nranks]}, schema={"op": pl.String, "n": pl.Int32})
    assert frame.select(bw.busbw_factor_expr(pl.col("op"), pl.col("n"))).item() == factor


@pytest.mark.parametrize(
    ("op", "expected"),
    [("AllReduce", 400), ("AllGather", 3200), ("ReduceScatter", 3200), ("AllToAll", 3200), ("Broadcast", 400)],
)
def test_bytes_that_count(op: str, expected: int) -> None:
    assert bw.traffic_bytes(op, 100, 4, 8) == expected


def test_element_sizes_by_every_kind_of_name() -> None:
    names = ["Float", "BFloat16", "ncclFloat32", "ncclBfloat16", "torch.int64", "Float8_e4m3fn", "half", "what", None]
    sizes = [4, 2, 4, 2, 8, 1, 2, None, None]
    assert [bw.dtype_size(n) for n in names] == sizes
    frame = pl.DataFrame({"t": names})
    assert frame.select(bw.dtype_size_expr(pl.col("t"))).to_series().to_list() == sizes


def test_unknown_gives_null_not_zero() -> None:
    frame = pl.DataFrame({"op": ["AllReduce"] * 3, "s": [None, 0, 8], "t": [5, 5, 0], "n": [8, 8, 8]})
    out = frame.select(bw.busbw_expr(*(pl.col(c) for c in ("op", "s", "t", "n")))).to_series()
    assert out.to_list() == [None, None, None]
