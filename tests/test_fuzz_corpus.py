"""What fuzzing has found is read again, and a few fresh inputs of every kind."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz import JUDGES, KEPT, KINDS, SUFFIX, judge


def test_found_cases_hold() -> None:
    for path in sorted(KEPT.glob("*")) if KEPT.exists() else ():
        JUDGES.get(path.name.partition("-")[0], judge)(path)


@pytest.mark.parametrize("kind", KINDS)
def test_fresh_inputs(tmp_path: Path, kind: str) -> None:
    rng = random.Random(kind)
    for number in range(8):
        path = tmp_path / f"{number}{SUFFIX[kind]}"
        path.write_bytes(KINDS[kind](rng))
        JUDGES.get(kind, judge)(path)
