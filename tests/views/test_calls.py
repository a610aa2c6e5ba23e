"""Calls by operation and size: counts by hand."""

from __future__ import annotations

import polars as pl

from nccl_insight.tables.run import build_run
from nccl_insight.views.calls import CallSize, calls


def test_calls_are_counted_by_operation_and_power_of_two() -> None:
    kib = 1024
    rows = (
        [("AllReduce", 4 * kib)] * 3 + [("AllReduce", 100 * kib)] * 2 + [("AllGather", 64 * kib), ("AllGather", None)]
    )
    found = calls(build_run({"calls": pl.DataFrame(rows, schema=["op", "size_bytes"], orient="row")}))
    assert found is not None
    assert (found.calls, found.small, found.powers, found.n_sizes) == (6, 3, (12, 16), 3)
    assert [(o.op, o.calls, dict(o.by_power)) for o in found.operations] == [
        ("AllReduce", 5, {12: 3, 16: 2}), ("AllGather", 1, {16: 1}),
    ]  # fmt: skip
    assert found.sizes[0] == CallSize("AllReduce", 4 * kib, 3)


def test_a_row_of_a_trace_may_stand_for_many_calls() -> None:
    schema = ["op", "size_bytes", "calls"]
    traced = pl.DataFrame([("AllReduce", 0, 40), ("AllReduce", 1 << 20, None)], schema=schema, orient="row")
    found = calls(build_run({"collectives": traced}))
    assert found is not None
    assert (found.calls, found.small, found.powers) == (41, 40, (0, 20))


def test_no_size_is_no_picture() -> None:
    assert calls(build_run({})) is None
