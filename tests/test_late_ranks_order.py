"""The chance of a delay does not depend on the order in which rows are grouped."""

import random

import polars as pl

from nccl_insight.facts.late_ranks import _chance_of_delay

STEPS, RANKS = 12, 8


def _events(seed: int) -> pl.DataFrame:
    own = random.Random(7)
    rows = [
        {"step": step, "last": rank, "delay_ns": own.randrange(1, 1000) + 400 * (rank == 3), "members": RANKS}
        for step in range(STEPS)
        for rank in range(RANKS)
    ]
    random.Random(seed).shuffle(rows)
    return pl.DataFrame(rows)


def test_the_same_events_give_the_same_chance_in_any_order() -> None:
    chances = {_chance_of_delay(_events(seed), 3) for seed in range(12)}
    assert len(chances) == 1
    assert 0 < chances.pop() < 0.5
