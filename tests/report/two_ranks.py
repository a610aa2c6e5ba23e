"""Traces of two ranks, one of them late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.trace_maker import all_reduce, event, trace, write


def two_ranks(folder: Path, shift_us: float = 0.0, **hosts: Any) -> list[Path]:
    """Rank 1 arrives 40 us after rank 0 in one AllReduce of 10 us."""
    paths = []
    for rank, (start, took) in enumerate([(100.0, 50.0), (140.0, 10.0)]):
        at = start + rank * shift_us
        events = [all_reduce(at, took, 64, [0, 1], seq=1), event("user_annotation", "ProfilerStep#4", at - 50, 120)]
        header = {"host_name": f"node-{rank}"} if shift_us else {}
        paths.append(write(folder / f"r{rank}.json", trace(rank, 2, events, **header)))
    return paths
