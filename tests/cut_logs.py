"""Logs that are cut in many places, and their tables."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl

from nccl_insight.tables.run import Run

RUNS = Path(__file__).parents[1] / "fixtures" / "runs"
LOGS = ["healthy-16rank-ib", "ib-2.14", "tiny-shm", "split-tp4-dp2-2.27", "gb200-mnnvl"]


def tables(run: Run) -> dict[str, pl.DataFrame]:
    """All tables with rows, columns by name; ``inputs`` without what only names the file."""
    found = {name: frame.select(sorted(frame.columns)) for name, frame in run.tables.items() if frame.height}
    found["inputs"] = found["inputs"].drop("path", "size_bytes", "sha256")
    return found


def same(one: dict[str, pl.DataFrame], other: dict[str, pl.DataFrame]) -> None:
    assert sorted(one) == sorted(other)
    for name, frame in one.items():
        assert frame.equals(other[name]), name


def text_of(name: str) -> bytes:
    (log,) = (RUNS / name).iterdir()
    return gzip.decompress(log.read_bytes()) if log.suffix == ".gz" else log.read_bytes()
