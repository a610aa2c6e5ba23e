"""The collectives of all ranks on one clock, with who waited for whom, and steps."""

from __future__ import annotations

import polars as pl

from nccl_insight.tables import schema
from nccl_insight.tables.run import build_run
from nccl_insight.views.events import events as events_of


def test_the_critical_path_ends_where_operations_have_no_length() -> None:
    """Such an operation is over where it begins: the way back must not lead to it again."""
    given = [("AllReduce", rank, 1, 1000, 0, 0, rank) for rank in (0, 1)]
    columns = ["op", "rank", "match_id", "start_ns", "duration_ns", "wait_ns", "input_id"]
    rows = pl.DataFrame(given, schema={name: schema.SCHEMA["collectives"][name] for name in columns}, orient="row")
    found = events_of(build_run({"collectives": schema.complete("collectives", rows)}))
    assert found is not None
    assert [(leg.op, leg.start_ns, leg.end_ns) for leg in found.path] == [("AllReduce", 1000, 1000)]
