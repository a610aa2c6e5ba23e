"""The collectives of all ranks on one clock, with who waited for whom, and steps."""

from __future__ import annotations

import polars as pl

from nccl_insight.tables import schema
from nccl_insight.tables.run import build_run
from nccl_insight.views.events import events as events_of
from tests.by_hand import run


def test_the_critical_path_ends_where_operations_have_no_length() -> None:
    """Such an operation is over where it begins: the way back must not lead to it again."""
    given = [("AllReduce", rank, 1, 1000, 0, 0, rank) for rank in (0, 1)]
    columns = ["op", "rank", "match_id", "start_ns", "duration_ns", "wait_ns", "input_id"]
    rows = pl.DataFrame(given, schema={name: schema.SCHEMA["collectives"][name] for name in columns}, orient="row")
    found = events_of(build_run({"collectives": schema.complete("collectives", rows)}))
    assert found is not None
    assert [(leg.op, leg.start_ns, leg.end_ns) for leg in found.path] == [("AllReduce", 1000, 1000)]


def test_an_arrow_leads_from_the_last_to_those_that_waited() -> None:
    op = {"op": "AllReduce", "match_id": 1, "input_id": 0}
    found = events_of(
        run(
            collectives=[
                {**op, "rank": 0, "start_ns": 1_000, "duration_ns": 9_000, "wait_ns": 5_000},
                {**op, "rank": 1, "start_ns": 6_000, "duration_ns": 4_000, "wait_ns": 0},
                {**op, "rank": 2, "start_ns": 5_500, "duration_ns": 4_500, "wait_ns": 500},
                {**op, "rank": None, "start_ns": 1, "duration_ns": 1},
            ],
            steps=[{"rank": 0, "step": 4, "start_ns": 500, "duration_ns": 20_000}],
        )
    )
    assert found is not None
    assert [(a.last_rank, a.rank, a.at_ns, a.end_ns) for a in found.arrows] == [(1, 0, 6_000, 10_000)]
    assert [tuple(lane) for lane in found.lanes] == [(0, None, 1), (1, None, 1), (2, None, 1)]
    assert found.origin_ns == 500
    assert [tuple(s) for s in found.steps] == [(0, 4, 500, 20_000)]
    assert [(leg.rank, leg.op, leg.start_ns, leg.end_ns) for leg in found.path] == [(1, "AllReduce", 6_000, 10_000)]


def test_clocks_that_differ_are_put_on_one() -> None:
    op = {"op": "AllReduce", "duration_ns": 10, "input_id": 0}
    found = events_of(
        run(
            collectives=[{**op, "rank": 0, "start_ns": 100}, {**op, "rank": 1, "start_ns": 1_100}],
            trace_clocks=[
                {"rank": 0, "offset_ns": 0, "comparable": False}, {"rank": 1, "offset_ns": 1_000, "comparable": False},
            ],
        )
    )  # fmt: skip
    assert found is not None
    assert [c.start_ns for c in found.collectives] == [100, 100]
    assert events_of(run()) is None
