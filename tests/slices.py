"""Parts of large sets of cases: another one for every commit, all of them with NCCL_INSIGHT_TEST_SLICES=1."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

SEED = int(os.environ.get("NCCL_INSIGHT_ENGINE_SEED", "0"))


def parts(of: int) -> int:
    """How many parts there are of a set that is to have ``of``."""
    return min(of, int(os.environ.get("NCCL_INSIGHT_TEST_SLICES", of)))


def part(cases: Iterable[T], of: int) -> list[T]:
    """Every ``of``-th case, from one on that the commit chooses."""
    count = parts(of)
    return list(cases)[SEED % count :: count]
