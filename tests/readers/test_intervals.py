"""Unions of intervals and what they cover, against counting each nanosecond, and far from zero."""

from __future__ import annotations

import random
from itertools import pairwise

import polars as pl
import pytest

from nccl_insight.readers import intervals

LANES = {"device": pl.Int32, "start_ns": pl.Int64, "end_ns": pl.Int64}


def frame(rows: list[tuple[int | None, int, int]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=LANES, orient="row")


def covered_by_counting(row: tuple[int, int, int], rows: list[tuple[int, int, int]]) -> int:
    lane, start, end = row
    return sum(any(lane == n and a <= t < b for n, a, b in rows) for t in range(start, end))


# The second distance makes lanes and times too long for one line.
@pytest.mark.parametrize("apart", [1, 1 << 20])
@pytest.mark.parametrize("begin", [0, -40, 1_700_000_000_000_000_000, 1 << 61])
@pytest.mark.parametrize("seed", range(6))
def test_union_and_cover(seed: int, begin: int, apart: int) -> None:
    rng = random.Random(seed)

    def some(count: int) -> list[tuple[int, int, int]]:
        starts = [begin + rng.randrange(80) for _ in range(count)]
        return [(rng.choice((-1, 0, 3)), s, s + rng.randrange(0, 12)) for s in starts]

    rows, asked = some(25), some(15)
    far = [(0, begin + (1 << 60), begin + (1 << 60) + 5)] if apart > 1 else []
    parts = intervals.union(frame(rows + far))
    kept = [r for r in parts.select("device", "start_ns", "end_ns").rows() if r not in far]
    for lane in (-1, 0, 3):
        times = [(a, b) for n, a, b in kept if n == lane]
        assert times == sorted(times)
        assert all(before[1] < behind[0] for before, behind in pairwise(times))
        whole = (lane, begin - 5, begin + 100)
        assert covered_by_counting(whole, kept) == covered_by_counting(whole, rows)
    done: dict[int, int] = {}
    for lane, start, end, before in parts.rows():
        assert before == done.get(lane, 0)
        done[lane] = before + end - start
    assert intervals.covered(frame(asked), parts).to_list() == [covered_by_counting(a, rows) for a in asked]


def test_lanes_without_a_number() -> None:
    rows = frame([(None, 5, 9), (None, 8, 12), (1, 0, 3)])
    parts = intervals.union(rows)
    assert parts.select("device", "start_ns", "end_ns").rows() == [(None, 5, 12), (1, 0, 3)]


def test_nothing() -> None:
    none = frame([])
    assert intervals.union(none).columns == ["device", "start_ns", "end_ns", "before_ns"]
    assert intervals.covered(none, none).to_list() == []
    assert intervals.covered(frame([(0, 1, 5)]), intervals.union(frame([(0, 7, 7)]))).to_list() == [0]
