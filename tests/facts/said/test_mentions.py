"""Lines looked up by what they say, wherever ingest put them."""

from __future__ import annotations

import polars as pl

from nccl_insight.facts.said import mentions
from nccl_insight.tables.run import build_run


def test_mentions_find_text_in_any_table_in_reading_order() -> None:
    errors = pl.DataFrame(
        {"host": ["a", "a"], "text": ["Unable to open device mlx5_1", "other"], "input_id": [0, 0], "line": [7, 8]}
    )
    unknown = pl.DataFrame({"example": ["Unable to open device mlx5_0"], "input_id": [0], "line": [2]})
    run = build_run({"errors": errors, "unknown": unknown})
    assert mentions.mentions(run, "device-unopened").get_column("line").to_list() == [2, 7]
    assert mentions.mentions(run, "acs-on").is_empty()
