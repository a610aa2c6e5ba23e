"""Whom others wait for, and what of it nothing was recorded of."""

import polars as pl

from nccl_insight.facts.lateness.waiting import awaited
from nccl_insight.tables.run import build_run
from nccl_insight.tables.schema import conform


def test_waiting_in_the_first_collective_of_a_rank_is_told_apart() -> None:
    """Rank 1 comes 30 ns late to the first of three operations and 4 ns to the last, rank 0 7 ns to the second."""
    rows = [
        (rank, match, 100 * match, 10 + wait, wait)
        for match, waits in enumerate(((30, 0), (0, 7), (4, 0)))
        for rank, wait in enumerate(waits)
    ]
    names = ["rank", "match_id", "start_ns", "duration_ns", "wait_ns"]
    table = pl.DataFrame(rows, schema=names, orient="row").with_columns(
        op=pl.lit("AllReduce"), source=pl.lit("kernel"), kernel=pl.lit("ncclDevKernel_AllReduce")
    )
    found = awaited(build_run({"collectives": conform("collectives", table)}))
    assert found.rows() == [(1, 34, 30), (0, 7, 0)]
