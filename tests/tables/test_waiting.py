"""Matched collectives side by side."""

from __future__ import annotations

import polars as pl

from nccl_insight.tables import schema


def test_statistics_have_one_order() -> None:
    """Kinds that took equally long are ordered by name."""
    from nccl_insight.tables.waiting import collective_statistics

    rows = schema.complete(
        "collectives",
        pl.DataFrame({"process_group": [f"g{n}" for n in range(40)], "duration_ns": [5] * 40, "op": ["Send"] * 40}),
    )
    assert collective_statistics(rows)["process_group"].to_list() == sorted(f"g{n}" for n in range(40))
