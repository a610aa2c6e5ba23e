"""Where the bundled runs are, and what tests share about them."""

from __future__ import annotations

from pathlib import Path

import polars as pl

RUNS = Path(__file__).parents[1] / "fixtures" / "runs"
HEALTHY = RUNS / "healthy-16rank-ib" / "run.log"
TINY_SHM = RUNS / "tiny-shm" / "run.log"
SHARED = Path(__file__).parents[2] / "shared"


def comparable(frame: pl.DataFrame) -> list[tuple[object, ...]]:
    """Rows without their place in the files, sorted: equal for the same run told in another order."""
    kept = frame.drop(["input_id", "line", "timestamp", "launcher_rank", "_launcher_rank"], strict=False)
    rows = kept.select(sorted(kept.columns)).rows()
    return sorted((tuple(map(str, row)) for row in rows), key=repr)
