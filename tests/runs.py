"""Where the bundled runs are, and what tests share about them."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl

RUNS = Path(__file__).parents[1] / "fixtures" / "runs"
HEALTHY = RUNS / "healthy-16rank-ib" / "run.log"
TINY_SHM = RUNS / "tiny-shm" / "run.log"
#: Reference data that is not part of the project: named by this variable, else tests that need it skip.
SHARED = Path(os.environ.get("NCCL_INSIGHT_REFERENCE_DATA") or "/nonexistent/nccl-insight-reference-data")


_LINES = ("init_started_line", "init_completed_line", "destroyed_line")


def comparable(frame: pl.DataFrame) -> list[tuple[object, ...]]:
    """Rows without their place in the files, sorted: equal for the same run told in another order."""
    kept = frame.drop(["input_id", "line", "timestamp", "launcher_rank", "_launcher_rank", *_LINES], strict=False)
    rows = kept.select(sorted(kept.columns)).rows()
    return sorted((tuple(map(str, row)) for row in rows), key=repr)
